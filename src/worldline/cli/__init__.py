"""`worldline <verb>`: finds the verb's module, reads its settings, runs it, prints the result.

Imports nothing heavy: a verb's module is loaded only when that verb is called, so `worldline --help` is instant.
"""

import errno
import importlib
import io
import json
import os
import select
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

VERBS = {
    "demo": "run the whole loop on the embedded household world; no network, no GPU",
    "collect": "run a policy in an environment, write a log; also the online evaluation",
    "sft": "clone a log or an environment's expert into a causal language model",
    "train": "reinforcement learning (GRPO, GiGPO, RLOO, PPO) with world-model co-training",
    "fit": "fit world models on a log: wm (a kernel over logged steps) and adwm (diffusion)",
    "evaluate": "estimate value, interval and rank of policies from a log",
    "compare": "is one logged policy better than another? paired by task, no environment needed",
    "report": "write a run or an evaluation as one self-contained HTML file",
    "view": "browse runs, logs and imagined episodes in a local browser",
    "import": "convert a log of another tool into a worldline log",
    "export": "write a log as JSON lines, as one Parquet file, or as Hugging Face traces",
    "push": "put a log or a world model on the Hugging Face Hub, with a card",
    "pull": "download a log or a world model from the Hugging Face Hub",
    "bench": "measure the figures of the README again",
    "completion": "print a script that completes verbs and flags in bash, zsh or fish",
    "env": "print versions, devices and extras, for a bug report; env serve NAME: an environment as an OpenEnv server",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code: 0 done, 1 the work failed, 2 bad input, 130 Ctrl-C, 143 SIGTERM."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 shows escapes
    if not words or words[0] in ("-h", "--help", "help"):
        return _shown(_help())
    if words[0] in ("-V", "--version"):
        from worldline import __version__

        return _shown(f"worldline {__version__}")
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        return _fail("worldline", f"unknown verb '{verb}'{_nearest(verb)} (see worldline --help)", 2)
    return _guarded(f"worldline {verb}", lambda: _run(verb, rest))


def _shown(text: str) -> int:
    """Print a text that needs nothing loaded; the exit code."""
    try:
        print(text, flush=True)
    except OSError as error:
        return 1 if _stdout_is_lost() else _fail("worldline", str(error), 1)
    return 0


def _guarded(who: str, work: Callable[[], None]) -> int:
    """The exit code of `work`; what ends it early is one line on stderr, and a bug its traceback too."""
    from worldline import signals
    from worldline.cli.verb_result import visible
    from worldline.types import WorldlineError

    try:
        with signals.sigterm_interrupts():
            work()
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a full disk is an error like any other
    except WorldlineError as error:
        return _fail(who, _with_notes(str(error), error), error.exit_code)
    except KeyboardInterrupt as interrupt:
        return _fail(who, signals.line(interrupt), signals.exit_code(interrupt))
    except OSError as error:
        if _stdout_is_lost() and isinstance(error, BrokenPipeError):
            return 1  # as of `| head`: whoever read has enough
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _fail(who, _with_notes(message, error), 1)
    except MemoryError as error:
        return _fail(who, _with_notes(f"out of memory: {str(error) or 'use a smaller batch'}", error), 1)
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which is no MemoryError; torch need not be loaded
            return _fail(who, _with_notes(f"out of memory: {error}", error), 1)
        print(visible(traceback.format_exc()), end="", file=sys.stderr)
        return _fail(who, "this is a bug: please report the lines above with the output of `worldline env`", 1)
    return 0


def _run(verb: str, words: list[str]) -> None:
    from worldline import command_line, files, help_text

    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    if verb == "bench" and words[:1] in (["--help"], ["-h"]):
        from worldline.cli.bench import overview

        print(overview())
        return
    command = command_of(verb, words)
    if verb == "bench" or (verb == "env" and words[:1] == ["serve"]):
        verb = f"{verb} {words.pop(0)}"
    if refuse_early := getattr(command, "refuse_early", None):
        refuse_early(words)
    if "--help" in words or "-h" in words:
        print(help_text.usage(command.Settings, f"worldline {verb}"))
        print(_environment_help(words), end="")
        print("\n--json prints the result as JSON on stdout, and nothing else there.")
        return
    with _stdout_set_aside() if as_json else nullcontext():
        settings = command_line.read(command.Settings, words)
        if (out := getattr(settings, "out", None)) is not None:
            _check_writable(out, str(out) if verb == "pull" else f"--out {out}")
        result = command.run(settings)
    if as_json:
        print(json.dumps(files.finite(result.data)))  # ASCII: what is no ASCII is escaped, control characters too
    else:
        result.show()


def _check_writable(path: Path, name: str) -> None:
    """InputError, which calls the path `name`, where neither it nor the folder it would be made in can be written."""
    from worldline.types import InputError

    place = path if os.path.isdir(path) else path.parent
    while not os.path.exists(place) and place != place.parent:
        place = place.parent
    if not os.path.isdir(place):
        reason = errno.ENOTDIR
    elif not os.access(place, os.W_OK | os.X_OK):
        reason = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
    else:
        return
    raise InputError(f"{name}: cannot be written: {os.strerror(reason)}")


@contextmanager
def _stdout_set_aside() -> Iterator[None]:
    """Within the block, what is printed goes to stderr: by code of the user's own, and by the processes it starts."""
    with ExitStack() as end:
        aside = sys.stderr or end.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stdout = sys.stdout
        if stdout is not None and (stdout, sys.stderr) == (
            sys.__stdout__,
            sys.__stderr__,
        ):  # others need not have a file behind them
            stdout.flush()
            own = os.dup(stdout.fileno())
            end.callback(os.close, own)
            end.callback(os.dup2, own, stdout.fileno())
            end.callback(stdout.flush)
            os.dup2(aside.fileno(), stdout.fileno())
        end.enter_context(redirect_stdout(aside))
        yield


def _environment_help(words: list[str]) -> str:
    """`worldline collect household --help`: the settings of that environment too."""
    from worldline import envs

    lines = [envs.describe(word) for word in words if envs.source_of(word)]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def _stdout_is_lost() -> bool:
    """Whether stdout takes no more; the interpreter then does not try again, and complain, when it ends."""
    try:
        sys.stdout.flush()
        lost = _reader_is_gone(sys.stdout.fileno())
    except io.UnsupportedOperation:  # no file at all
        return False
    except OSError:
        lost = True
    if lost:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return lost


def _reader_is_gone(pipe: int) -> bool:
    """Whether nobody reads a pipe any more: what was not buffered is lost before there is anything to flush."""
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def command_of(verb: str, words: list[str]) -> Any:
    """What has the verb's `Settings`, the class of its flags, and `run`: its module, one bench, or `env serve`."""
    name = "env_serve" if verb == "env" and words[:1] == ["serve"] else {"import": "import_"}.get(verb, verb)
    module = importlib.import_module(f"worldline.cli.{name}")
    return module.choose(words) if verb == "bench" else module


def _with_notes(message: str, error: BaseException) -> str:
    """What happened, and what else became of the work, such as episodes that are lost."""
    return "; ".join([message, *getattr(error, "__notes__", ())])


def _fail(who: str, message: str, code: int) -> int:
    from worldline.cli.verb_result import visible

    print(visible(f"{who}: {' '.join(message.split())}"), file=sys.stderr)
    return code


def _nearest(verb: str) -> str:
    import difflib

    close = difflib.get_close_matches(verb, VERBS, n=1)
    return f": did you mean '{close[0]}'?" if close else ""


def _help() -> str:
    lines = [
        "worldline: train language agents that understand their world, and know how good an agent is",
        "before it touches one.",
        "",
        "usage: worldline VERB [RECIPE.yaml] [--flag value ...] [--json]",
        "",
        *(f"  {verb:<12}{text}" for verb, text in VERBS.items()),
        "",
        "worldline VERB --help lists a verb's settings with examples. Start with: worldline demo",
    ]
    return "\n".join(lines)
