"""The command line: `list`, `show`, `run`, `verify`, `gallery`, `sweep`, `report`, `runs`, `data` and `diagnose`."""

# Each command imports what it needs when it is called, so that help and refusals do not wait for what they do
# not use. Results go to stdout; progress, warnings and errors go to stderr.

from afterfit._cli import data, diagnose, gallery, run, runs, site, sweep, verify
from afterfit._cli._app import app, main

__all__ = ["app", "main"]

# In the order of the help. The functions stay in their modules: here, `run` is a module and not a command.
app.command("list")(gallery.list_)
app.command("show")(gallery.show)
app.command("run")(run.run)
app.command("verify")(verify.verify)
app.command("gallery")(site.gallery)
app.command("sweep")(sweep.sweep)
app.command("report")(sweep.report)
app.add_typer(runs.runs, name="runs")
app.add_typer(data.data, name="data")
app.command("diagnose")(diagnose.diagnose)
