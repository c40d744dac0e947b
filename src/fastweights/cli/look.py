"""`fastweights look`."""

from pathlib import Path

from tyro.conf import Positional

from fastweights.cli.results import set_threads
from fastweights.experiments.options import Checkpoint, OptionalInt, OptionalPath, OptionalText, Threads


def look(
    run: Positional[Path],
    text: OptionalPath = None,
    split: str = "valid",
    limit: int = 4096,
    window: OptionalInt = None,
    reach: OptionalInt = None,
    out: Path = Path("fastweights-look.html"),
    checkpoint: Checkpoint = "best",
    data: OptionalText = None,
    threads: Threads = None,
) -> None:
    """Show what the memories of a trained language model do over a text: one page, and a summary here.

    Args:
        run: folder of a run, or one that `save_pretrained` of Hugging Face wrote.
        text: a text file of your own; by default a split of the data of the run.
        split: valid or test.
        limit: read this many tokens.
        window: position of the first token of the stretch that is shown in detail; the middle if absent.
        reach: tokens after which the memory is reset; by default it never is.
        out: the page to write.
        checkpoint: that of the best validation, or the newest.
        data: where the data of the run is now, if it was moved.
        threads: CPU threads.
    """
    from fastweights.experiments.look.looking import look as look_into
    from fastweights.experiments.look.page import page_of, summary_table
    from fastweights.experiments.look.subject import open_subject
    from fastweights.files import write_whole
    from fastweights.reporting import print_table

    set_threads(threads)
    if out.is_dir():
        raise ValueError(f"out: {out} is a folder, a file is needed")
    subject = open_subject(run, text, split, limit, checkpoint, data)
    looked = look_into(subject, reach=reach, first=window)
    page = page_of(looked)
    for table in (summary_table(looked), *page.tables):
        print_table(table.caption, table.columns, table.rows)
    write_whole(out, page.html())
    print(f"The page is {out}")
