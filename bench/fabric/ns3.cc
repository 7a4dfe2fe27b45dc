/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The network of permutation.yaml in ns-3, with UDP in the place of RDMA: packets that arrive, and the
 * seconds that it took to simulate them. */
#include <chrono>
#include <cstdio>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

static const unsigned LEAVES = 8, SPINES = 8, HOSTS = 8, ALL = LEAVES * HOSTS;
static uint64_t arrived;

static void Arrives(Ptr<const Packet>, const Address &)
{
	arrived++;
}

int main()
{
	Config::SetDefault("ns3::Ipv4GlobalRouting::RandomEcmpRouting", BooleanValue(true));
	NodeContainer hosts, leaves, spines;
	hosts.Create(ALL);
	leaves.Create(LEAVES);
	spines.Create(SPINES);
	InternetStackHelper stack;
	stack.InstallAll();
	PointToPointHelper link;
	link.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
	link.SetChannelAttribute("Delay", StringValue("1us"));
	Ipv4AddressHelper net("10.0.0.0", "255.255.255.252");
	std::vector<Ipv4Address> address(ALL);
	for (unsigned i = 0; i < ALL; i++) {
		auto pair = net.Assign(link.Install(hosts.Get(i), leaves.Get(i / HOSTS)));
		address[i] = pair.GetAddress(0);
		net.NewNetwork();
	}
	for (unsigned l = 0; l < LEAVES; l++)
		for (unsigned s = 0; s < SPINES; s++) {
			net.Assign(link.Install(leaves.Get(l), spines.Get(s)));
			net.NewNetwork();
		}
	Ipv4GlobalRoutingHelper::PopulateRoutingTables();
	for (unsigned i = 0; i < ALL; i++) {
		unsigned to = (i + ALL / 2) % ALL;
		OnOffHelper source("ns3::UdpSocketFactory", InetSocketAddress(address[to], 9));
		source.SetConstantRate(DataRate("9.3Gbps"), 1024);
		source.Install(hosts.Get(i));
		PacketSinkHelper sink("ns3::UdpSocketFactory",
				      InetSocketAddress(Ipv4Address::GetAny(), 9));
		sink.Install(hosts.Get(i)).Get(0)->TraceConnectWithoutContext("Rx",
									      MakeCallback(&Arrives));
	}
	Simulator::Stop(MilliSeconds(2));
	auto begin = std::chrono::steady_clock::now();
	Simulator::Run();
	std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
	std::printf("%llu %f\n", (unsigned long long)arrived, took.count());
	Simulator::Destroy();
	return 0;
}
