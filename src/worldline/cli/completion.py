"""`worldline completion SHELL`: a script by which bash, zsh or fish complete verbs, flags and their words.

The script holds the flags of this version and asks nobody: completing loads no Python. Print it anew after an update.
"""

import shlex
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Union, get_args

from worldline import __version__
from worldline.bench import BENCHES
from worldline.cli import VERBS, command_of
from worldline.cli.verb_result import Verbatim, VerbResult
from worldline.config import Config, Flag, dashed, flags_of, origin_of, positional
from worldline.envs import WORLDS

Shell = Literal["bash", "zsh", "fish"]
_OF_A_WORLD = ("env", "source", "name")
"""Positional settings that may name an environment."""
_CHOICE = """\
    if {first}; then
        offered={verbs}
    else
        case "$verb $prev" in
{after}
        *)
            case "$verb" in
{each}
            esac
            case "$cur" in
            -*) offered="$flags" ;;
            *) offered="$places" ;;
            esac ;;
        esac
    fi
"""
"""What bash and zsh share."""
_BASH = """\
# bash completion of worldline {version}
_worldline() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" verb="${{COMP_WORDS[1]}}"
    local offered="" flags="" places=""
    [ "$verb" = bench ] && [ "$COMP_CWORD" -gt 2 ] && verb="bench ${{COMP_WORDS[2]}}"
{choice}
    COMPREPLY=($(compgen -W "$offered" -- "$cur"))
    [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -o filenames -F _worldline worldline
"""
_ZSH = """\
#compdef worldline
# zsh completion of worldline {version}
_worldline() {{
    local cur="${{words[CURRENT]}}" prev="${{words[CURRENT-1]}}" verb="${{words[2]}}"
    local offered="" flags="" places=""
    [[ "$verb" == bench ]] && (( CURRENT > 3 )) && verb="bench ${{words[3]}}"
{choice}
    compadd -- ${{=offered}} || _files
}}
if [[ "${{funcstack[1]}}" == _worldline ]]; then _worldline "$@"; else compdef _worldline worldline; fi
"""
_FISH = """\
# fish completion of worldline {version}
function __worldline_verb
    set -l given (commandline -opc)
    set -l verb $given[2]
    test "$verb" = bench; and test (count $given) -gt 2; and set verb "bench $given[3]"
    test "$verb" = "$argv[1]"
end
{lines}
"""


class CompletionConfig(Config):
    """Print a script that completes verbs, flags and their words in a shell.

    bash: worldline completion bash > ~/.local/share/bash-completion/completions/worldline
    zsh: worldline completion zsh > a folder of $fpath/_worldline
    fish: worldline completion fish > ~/.config/fish/completions/worldline.fish
    """

    examples: ClassVar[tuple[str, ...]] = ("worldline completion bash", "worldline completion fish")

    shell: Shell = positional(help="bash, zsh or fish")


Settings = CompletionConfig


@dataclass(frozen=True)
class CompletedVerb:
    """What can follow a verb, or `bench NAME`."""

    name: str
    help: str
    flags: tuple[Flag, ...]

    @property
    def spellings(self) -> list[str]:
        return [f"--{dashed(flag.name)}" for flag in self.flags if not flag.positional] + ["--json", "--help"]

    @property
    def places(self) -> list[str]:
        """What can stand in the place of a positional setting."""
        if self.name == "bench":
            return list(BENCHES)
        words = [word for flag in self.flags if flag.positional for word in words_of(flag)]
        worlds = any(flag.positional and flag.name in _OF_A_WORLD for flag in self.flags)
        return [*words, *(["serve"] if self.name == "env" else ()), *(WORLDS if worlds else ())]


def run(settings: CompletionConfig) -> VerbResult:
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[settings.shell](completed_verbs())
    return VerbResult({"shell": settings.shell, "script": script}, (Verbatim(script),))


def completed_verbs() -> list[CompletedVerb]:
    """Every verb and every bench, with its flags."""
    verbs = []
    for name, text in VERBS.items():
        flags = () if name == "bench" else tuple(flags_of(command_of(name, []).Settings))
        verbs.append(CompletedVerb(name, text, flags))
    for name, text in BENCHES.items():
        verbs.append(CompletedVerb(f"bench {name}", text, tuple(flags_of(command_of("bench", [name]).Settings))))
    return verbs


def words_of(flag: Flag) -> list[str]:
    """The words a setting takes, where it takes one of some."""
    return _words(flag.annotation)


def _words(annotation: Any) -> list[str]:
    """Of a Literal, of several, or of a sequence of them."""
    kind = origin_of(annotation)
    if kind is Literal:
        return [str(word) for word in get_args(annotation)]
    parts = get_args(annotation)[:1] if kind in (list, tuple) else ()
    parts = get_args(annotation) if kind in (Union, types.UnionType) else parts
    return [word for part in parts for word in _words(part)]


def _bash(verbs: Sequence[CompletedVerb]) -> str:
    return _BASH.format(version=__version__, choice=_choice(verbs, '[ "$COMP_CWORD" -eq 1 ]').rstrip())


def _zsh(verbs: Sequence[CompletedVerb]) -> str:
    return _ZSH.format(version=__version__, choice=_choice(verbs, "(( CURRENT == 2 ))").rstrip())


def _choice(verbs: Sequence[CompletedVerb], first: str) -> str:
    """The lines that set `offered`; `first` is the condition under which the verb itself is being written."""
    after = [
        f"        {shlex.quote(f'{verb.name} --{dashed(flag.name)}')}) offered={_quoted(words)} ;;"
        for verb in verbs
        for flag in verb.flags
        if not flag.positional and (words := words_of(flag))
    ]
    each = [
        f"            {shlex.quote(verb.name)}) flags={_quoted(verb.spellings)}\n"
        f"                places={_quoted(verb.places)} ;;"
        for verb in verbs
    ]
    return _CHOICE.format(first=first, verbs=_quoted(list(VERBS)), after="\n".join(after), each="\n".join(each))


def _quoted(words: Sequence[str]) -> str:
    return shlex.quote(" ".join(words))


def _fish(verbs: Sequence[CompletedVerb]) -> str:
    lines = [_fish_line("__fish_use_subcommand", f"-f -a {verb}", text) for verb, text in VERBS.items()]
    for verb in verbs:
        condition = (
            f"__worldline_verb {shlex.quote(verb.name)}" if " " in verb.name else f"__worldline_verb {verb.name}"
        )
        if verb.places:
            lines.append(_fish_line(condition, f"-a {_quoted(verb.places)}", ""))
        for flag in verb.flags:
            if not flag.positional:
                taken = f" -x -a {_quoted(words)}" if (words := words_of(flag)) else "" if flag.switch else " -r"
                lines.append(_fish_line(condition, f"-l {dashed(flag.name)}{taken}", flag.help))
        lines.append(_fish_line(condition, "-l json", "print the result as JSON"))
    return _FISH.format(version=__version__, lines="\n".join(lines))


def _fish_line(condition: str, what: str, text: str) -> str:
    """fish knows two escapes in single quotes: of the quote, and of the backslash."""

    def quoted(words: str) -> str:
        escaped = words.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    return f"complete -c worldline -n {quoted(condition)} {what}" + (f" -d {quoted(text)}" if text else "")
