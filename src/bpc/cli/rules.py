"""`bpc rules`: check, format, test and try out rule files. Needs no database and no settings."""

import typer

from bpc.cli.rules_check import check
from bpc.cli.rules_eval import evaluate
from bpc.cli.rules_fmt import fmt
from bpc.cli.rules_test import test

app = typer.Typer(
    help="Check, format, test and try out rule files.\n\n"
    "Rules say how a passport's fields follow from facts; docs/rules/language.md explains them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("check")(check)
app.command("fmt")(fmt)
app.command("test")(test)
app.command("eval")(evaluate)
