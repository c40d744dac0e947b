"""`fastweights export`."""

from pathlib import Path

from tyro.conf import Positional

from fastweights.experiments.options import Checkpoint


def export(run: Positional[Path], out: Path, checkpoint: Checkpoint = "best") -> None:
    """Write a trained model as a Hugging Face folder with its tokenizer, for `from_pretrained` and `generate`.

    Args:
        run: folder of the run.
        out: folder to write; it must not exist yet.
        checkpoint: that of the best validation, or the newest.
    """
    from fastweights.experiments.families import module_for
    from fastweights.experiments.load import read_run
    from fastweights.files import new_folder

    family = module_for(read_run(run).task, "export")
    if family is None:
        raise ValueError(f"{run}: models of this task cannot be exported; possible: language models and translators")
    with new_folder(out) as partial:
        if partial is None:
            raise ValueError(f"{out}: it exists already; name another folder")
        family.export(run, partial, checkpoint)
    print(f"{out}: written; `import fastweights.hf` tells transformers about its model")
