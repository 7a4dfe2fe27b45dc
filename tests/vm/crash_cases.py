# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Connections that one side no longer knows of: rebooted, or killed without a word."""
