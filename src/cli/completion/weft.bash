# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# bash completion for weft(1). What there is to complete is what `weft help` and --help show: an
# option's argument is a FILE, one of a|few|words, or something that only the user knows.

_weft()
{
	local weft=${COMP_WORDS[0]/#\~\//$HOME/} cur=${COMP_WORDS[COMP_CWORD]} option='' before=''
	local command=${COMP_WORDS[1]} help long short argument program i
	local -a words=()

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ] || { [ "$COMP_CWORD" -eq 2 ] && [ "$command" = help ]; }; then
		words=($("$weft" help 2>/dev/null | sed -nE 's/^  ([a-z-]+) .*/\1/p'))
		[ "$COMP_CWORD" -eq 1 ] && words+=(help --help --version)
		COMPREPLY=($(compgen -W "${words[*]}" -- "$cur"))
		return
	fi
	help=$("$weft" "$command" --help 2>/dev/null) || return

	# What is behind the program of `weft run` is the program's.
	if [[ $help == *' PROGRAM '* ]]; then
		for ((program = 2; program < COMP_CWORD; program++)); do
			[ "${COMP_WORDS[program]}" = -- ] && { ((program++)); break; }
			[[ ${COMP_WORDS[program]} == -* || ${COMP_WORDS[program]} == = ||
				${COMP_WORDS[program - 1]} == = ||
				$help == *" ${COMP_WORDS[program - 1]}="[A-Z]* ]] || break
		done
		if [ "$program" -lt "$COMP_CWORD" ]; then
			if declare -F _command_offset >/dev/null; then
				_command_offset "$program"
			else
				_weft_files "$cur"
			fi
			return
		elif [[ $cur != -* && $cur != = && ${COMP_WORDS[COMP_CWORD - 1]} != = ]]; then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur" | sort -u)
			return
		fi
	fi

	# "--option=word" is three words, unless COMP_WORDBREAKS has no "=".
	if [ "$cur" = = ]; then
		option=${COMP_WORDS[COMP_CWORD - 1]} cur=
	elif [ "${COMP_WORDS[COMP_CWORD - 1]}" = = ]; then
		option=${COMP_WORDS[COMP_CWORD - 2]}
	elif [[ $cur == --*=* ]]; then
		option=${cur%%=*} before=$option= cur=${cur#*=}
	elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == -* ]]; then
		option=${COMP_WORDS[COMP_CWORD - 1]}' '
	fi
	while read -r long short; do
		argument=
		case $long in
		*'[='*) # behind "=" only
			argument=${long#*=} argument=${argument%]} long=${long%%[*}
			words+=("$long")
			;;
		*=*)
			argument=${long#*=} long=${long%%=*}
			words+=("$long=")
			[[ $option == "$long " || $option == "$short " ]] && option=$long
			;;
		*) words+=("$long") ;;
		esac
		[ -n "$short" ] && words+=("$short")
		[ "$option" = "$long" ] || continue
		case $argument in
		FILE) _weft_files "$cur" "$before" ;;
		*[A-Z]*) ;;
		*) COMPREPLY=($(compgen -P "$before" -W "${argument//|/ }" -- "$cur")) ;;
		esac
		return
	done < <(sed -nE 's/^ {2,6}((-.), )?(--[^ ]+).*/\3 \2/p' <<<"$help")

	if [[ $help == *'[VERB '* && $cur != -* ]]; then
		_weft_verbs "$weft" "$command" "$help"
		return
	fi
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "${words[*]}" -- "$cur"))
		[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
	elif [[ $help =~ (Usage|or):[^$'\n']*' FILE' ]]; then
		_weft_files "$cur"
	fi
}

# Verbs, and paths of what there is, which "weft target ls -p" shows.
_weft_verbs()
{
	local verbs verb='' service=() line=${COMP_LINE:0:COMP_POINT} full i
	# A name's colons are words of their own, unless COMP_WORDBREAKS has no ":".
	full=${line##*[[:space:]]}
	[ -n "$COMP_LINE" ] || full=$cur
	verbs=$(sed -nE 's/^  ([a-z]+) .*/\1/p' <<<"${3#*What is to be done:}")
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s | --service) service=(-s "${COMP_WORDS[i + 1]}") ;;
		esac
		[[ " "${verbs//$'\n'/ }" " == *" ${COMP_WORDS[i]} "* ]] && verb=${verb:-${COMP_WORDS[i]}}
	done
	if [[ $verb == save || $verb == restore ]]; then
		_weft_files "$cur"
	elif [[ $full == /* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$1" "$2" "${service[@]}" ls -p 2>/dev/null)" -- "$full")
		[ "$full" = "$cur" ] || COMPREPLY=("${COMPREPLY[@]#"${full%"$cur"}"}")
	elif [ -z "$verb" ]; then
		COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
	fi
}

_weft_files()
{
	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen -P "$2" -f -- "$1")
}

complete -F _weft weft
