"""What kind of work a job is, guessed from its image and its commands, with the reason; its author's word always wins.

Three kinds of evidence, strongest first, and within one the strongest kind of work:

| evidence | example | weight |
|---|---|---|
| a program that does one thing | ``gmx mdrun`` simulates, ``blender`` renders, ``torchrun`` trains | 4 |
| a flag or an argument | ``--epochs``, ``--max_new_tokens`` | 3 |
| a word in a name | ``train.py``, ``predict``, ``preprocess`` | 2 |
| the image | ``vllm/…`` serves a model, ``openfoam/…`` simulates | 2 |

Words are looked for in the parts of names, so that ``train_ddp.py`` trains and ``restrain`` does not. The most weight wins; a tie, or less
than 2, is ``custom``: an unknown program is not guessed at. Past runs of the same name decide before all of that.

The kind sets what a spec leaves open: :data:`DEFAULTS`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduling.domain.demand import TaskType

LEAST: Final = 2
SURE: Final = 4


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PROGRAMS: Final[Mapping[TaskType, frozenset[str]]] = {
    TaskType.TRAINING: _words(
        """
        torchrun deepspeed accelerate composer axolotl llamafactory-cli colossalai fairseq-train xgboost lightgbm
        mim horovodrun
        """
    ),
    TaskType.INFERENCE: _words(
        """
        vllm tritonserver text-generation-launcher text-embeddings-router ollama llama-cli llama-server whisper
        torchserve tensorflow_model_server trtexec lm_eval benchmark_app bentoml tesseract piper colabfold_batch
        """
    ),
    TaskType.DATA: _words(
        """
        spark-submit rsync rclone tar zip unzip gzip pigz zstd xz duckdb sqlite3 pg_dump psql sort awk sed jq split
        wget curl dbt clickhouse-local parquet-tools samtools bcftools bedtools gdal_translate gdalwarp hadoop
        pandoc sha256sum md5sum s3cmd aws s5cmd datalad
        """
    ),
    TaskType.SIMULATION: _words(
        """
        vina smina gnina dock gmx mdrun lmp lammps namd2 namd3 openmm pw.x ph.x vasp_std vasp_gam orca g16 cp2k
        cp2k.psmp cp2k.popt siesta nwchem psi4 simplefoam pimplefoam interfoam icofoam snappyhexmesh wrf.exe ngspice
        verilator iverilog sumo abaqus ansys ansys232 fluent starccm+ matlab octave julia pmemd.cuda sander su2_cfd
        su2 su2cfd geant4 dolfinx nektar
        """
    ),
    TaskType.RENDER: _words(
        """
        blender ffmpeg povray mitsuba kick prman render husk handbrakecli luxcoreconsole manim octane
        redshiftcmdline gst-launch-1.0 nuke openscad aerender vray av1an arnold x264 x265 svtav1encapp
        """
    ),
}
"""Kind → programs that do nothing else."""

FLAGS: Final[Mapping[TaskType, frozenset[str]]] = {
    TaskType.TRAINING: _words(
        """
        epochs max-epochs max_epochs num_train_epochs lr learning-rate learning_rate do_train deepspeed_config
        resume nproc_per_node max_train_steps optimizer total-timesteps
        """
    ),
    TaskType.INFERENCE: _words(
        """
        max_new_tokens max-new-tokens prompt prompts ctx-size model-repository model-id model-path no-train
        fasta_paths served-model-name
        """
    ),
    TaskType.DATA: _words("tokenize shards minhash from to"),
    TaskType.SIMULATION: _words("receptor ligand pdb dt exhaustiveness paths grid"),
    TaskType.RENDER: _words("spp render-frame render-output"),
}
"""Kind → names of flags that only such programs have."""

WORDS: Final[Mapping[TaskType, frozenset[str]]] = {
    TaskType.TRAINING: _words(
        """
        train training trainer finetune finetuning pretrain pretraining fit ppo dqn rl lora distill dreambooth sft
        supervised tune hparams gan
        """
    ),
    TaskType.INFERENCE: _words(
        """
        predict prediction predictions infer inference generate generation serve serving score scoring evaluate eval
        embed embeddings classify translate transcribe txt2img img2img detect alphafold verify
        """
    ),
    TaskType.DATA: _words(
        """
        etl prep preprocess preprocessing clean merge convert dedup tokenize download export import ingest join
        resize extract transform sync dump migrate parquet
        """
    ),
    TaskType.SIMULATION: _words(
        """
        simulate simulation sim simulator montecarlo mc md nbody cfd lbm solver poisson heat docking dynamics openmm
        pricing sweep foam wrf geant4 fem
        """
    ),
    TaskType.RENDER: _words("render renders rendering frames raytrace raytracing transcode encode animation"),
}
"""Kind → parts of names of scripts and modules."""

IMAGES: Final[Mapping[TaskType, frozenset[str]]] = {
    TaskType.TRAINING: _words("axolotl foundry deepspeed"),
    TaskType.INFERENCE: _words("vllm tritonserver sglang ollama inference serving openvino tgi tei triton"),
    TaskType.DATA: _words("spark clickhouse postgres mysql duckdb airflow dbt hadoop"),
    TaskType.SIMULATION: _words("gromacs openfoam11 openfoam lammps dolfinx fenics namd cp2k quantum"),
    TaskType.RENDER: _words("blender ffmpeg handbrake povray"),
}
"""Kind → parts of an image's name."""

TABLES: Final[tuple[tuple[str, int, Mapping[TaskType, frozenset[str]]], ...]] = (
    ("program", 4, PROGRAMS),
    ("flag", 3, FLAGS),
    ("word", 2, WORDS),
    ("image", 2, IMAGES),
)
_TOKEN = re.compile(r"[^\s;|&<>'\"(){}=]+")
_PART = re.compile(r"[A-Za-z]+[0-9]*[A-Za-z]*|[0-9]+")
_FILE = re.compile(r"\.(py|sh|ipynb|jl|r|m|pl|js|rb)$", re.IGNORECASE)


@dataclass(frozen=True)
class Guess:
    """A kind and why: what was found (``torchrun``) as which evidence (program, flag, word, image, history, none)."""

    kind: TaskType
    evidence: str
    found: str = ""
    sure: bool = False

    def form(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"kind": self.kind.value, "evidence": self.evidence, "found": self.found, "sure": self.sure}


def guess(*, image: str = "", run: str = "", setup: str = "", past: Sequence[str] = ()) -> Guess:
    """The kind of a job. `past`: kinds that its author gave to earlier runs of the same name, newest first."""
    if past:
        return Guess(TaskType(past[0]), "history", sure=True)
    seen = _evidence(image, run) or _evidence("", setup)
    sums: dict[TaskType, int] = {}
    for kind, weight, _evidence_name, _found in seen:
        sums[kind] = sums.get(kind, 0) + weight
    if not sums:
        return Guess(TaskType.CUSTOM, "none")
    best = max(sums.values())
    winners = [kind for kind, weight in sums.items() if weight == best]
    if len(winners) > 1 or best < LEAST:
        return Guess(TaskType.CUSTOM, "none")
    _, _, evidence, found = max((one for one in seen if one[0] is winners[0]), key=lambda one: one[1])
    return Guess(winners[0], evidence, found, best >= SURE)


def _evidence(image: str, run: str) -> list[tuple[TaskType, int, str, str]]:
    """(kind, weight, evidence, what) of each thing that tells; each table tells a kind at most once."""
    programs, flags, words = _read(run)
    where = {"program": programs, "flag": flags, "word": words, "image": _parts(image)}
    found = []
    for name, weight, table in TABLES:
        for kind, known in table.items():
            hit = next((word for word in where[name] if word in known), None)
            if hit is not None:
                found.append((kind, weight, name, hit))
    return found


def _read(run: str) -> tuple[list[str], list[str], list[str]]:
    """Programs, flags and parts of names in a command."""
    programs, flags, words = [], [], []
    for token in _TOKEN.findall(run):
        low = token.lower()
        if low.startswith("-"):
            flags.append(low.lstrip("-"))
            continue
        name = low.rpartition("/")[2]
        programs += [name, name.rpartition(".")[0]] if not _FILE.search(name) and "." in name else [name]
        if _FILE.search(name) or "." not in name:
            words += _parts(_FILE.sub("", low))
    return programs, flags, words


def _parts(text: str) -> list[str]:
    return [part.lower() for part in _PART.findall(text)]


@dataclass(frozen=True)
class Defaults:
    """What a kind of work usually needs where a spec says nothing."""

    network_mbps: int = 0
    disk_gib: int = 20
    shared_memory_gib: int = 1
    max_latency_ms: int | None = None


DEFAULTS: Final[Mapping[TaskType, Defaults]] = {
    TaskType.TRAINING: Defaults(network_mbps=1_000, disk_gib=100, shared_memory_gib=8),
    TaskType.INFERENCE: Defaults(disk_gib=50, shared_memory_gib=2, max_latency_ms=100),
    TaskType.DATA: Defaults(network_mbps=1_000, disk_gib=200),
    TaskType.SIMULATION: Defaults(shared_memory_gib=2),
    TaskType.RENDER: Defaults(disk_gib=50),
    TaskType.CUSTOM: Defaults(),
}
