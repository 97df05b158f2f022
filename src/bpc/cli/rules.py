"""`bpc rules`: check, format, test and try out rule files, with nothing running; publish them over the API."""

import typer

from bpc.cli.rules_check import check
from bpc.cli.rules_eval import evaluate
from bpc.cli.rules_fmt import fmt
from bpc.cli.rules_list import list_rules
from bpc.cli.rules_publish import publish
from bpc.cli.rules_test import test

app = typer.Typer(
    help="Check, format, test, try out and publish rules.\n\n"
    "Rules say how a passport's fields follow from facts; docs/rules/language.md explains them. `publish` and `list` "
    "ask an API; the others need nothing but the files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("check")(check)
app.command("fmt")(fmt)
app.command("test")(test)
app.command("eval")(evaluate)
app.command("publish")(publish)
app.command("list")(list_rules)
