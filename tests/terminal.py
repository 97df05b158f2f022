"""A person at a terminal and a shell: what the program prints there, and what the shell completes."""

import os
import pty
import subprocess

from tests.cli.program import Program


def run_on_terminal(bpc: Program, *arguments: str) -> str:
    """Everything it prints with a terminal for all three streams."""
    terminal, child_end = pty.openpty()
    environment = {"TERM": "xterm", "COLUMNS": "160", **bpc.environment()}
    with subprocess.Popen(
        bpc.command(*arguments), stdin=child_end, stdout=child_end, stderr=child_end, env=environment
    ) as ran:
        os.close(child_end)
        output = b""
        try:
            while piece := os.read(terminal, 4096):
                output += piece
        except OSError:  # how a terminal without anybody on the other side ends on Linux
            pass
        ran.wait()
    os.close(terminal)
    return output.decode()


def list_completions(bpc: Program, shell: str, words: str) -> str:
    """What the shell offers for `words`; standard error stays empty."""
    arguments = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    if shell != "bash":
        arguments = {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    ended = bpc.with_settings(_BPC_COMPLETE=f"complete_{shell}", **arguments).run()
    assert ended.err == "", ended
    return ended.out
