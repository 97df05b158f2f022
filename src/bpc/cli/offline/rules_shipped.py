"""`bpc rules shipped`: the rule packages that come with bpc."""

from bpc.cli.support import package_folders
from bpc.cli.support.output import AsJson, print_json, print_table


def list_shipped_packages(as_json: AsJson = False) -> None:
    """List the rule packages that are shipped with bpc.

    Every command for rules takes one as `shipped:NAME`, and a package of yours may extend one by its name and release.

    \b
    bpc rules shipped
    bpc rules test shipped:eu-battery
    """
    packages = package_folders.list_shipped_packages()
    if as_json:
        print_json([{**package._asdict(), "folder": str(package.folder)} for package in packages])
        return
    print_table(("PACKAGE", "RELEASE", "FOLDER"), packages)
