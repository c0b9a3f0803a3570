"""The artefacts of B1: what each is made of, how it is asked for, and what its refusal says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.battery import artefacts as evil
from tests.battery.local_hub import Asker, LocalHub

LABELS = "name: Shapes\nsource: a test\nclasses:\n  sq: square\n  ci: circle\n"
MODEL = """\
name: Net
source:
{source}
loader: {loader}
architecture:
  name: {architecture}
label_space: shapes
input:
  size: 16
  normalization: inside
{more}training:
  datasets: [nothing]
license: MIT
added: 2026-01-31
"""
GENERATOR = """\
name: Edits
summary: A test.
method:
  kind: text-edit
  source:
    kind: hub
    repo: org/generator
    revision: unresolved
    files: [{files}]
  size: 8
  templates: ["a {{}}"]
  strength: 0.5
  steps: 1
license: MIT
added: 2026-01-31
"""
DATASET = """\
name: Set
source:
{source}
label_space: shapes
size: {size}
native_size: 8
license: MIT
display_allowed: true
citation: made up
added: 2026-01-31
"""
HUB_MODEL = "  kind: hub\n  repo: org/model\n  revision: unresolved"
PROMPTS = "zero_shot:\n  templates: ['a {}']\n"


@dataclass
class Stage:
    """A workspace, the Hub, and the process in which everything happens."""

    root: Path
    hub: LocalHub
    asker: Asker
    canary: Path

    def write(self, name: str, content: bytes | str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def sha(self, name: str) -> str:
        import hashlib

        return hashlib.sha256((self.root / "data" / name).read_bytes()).hexdigest()

    def model(
        self, *, source: str = HUB_MODEL, loader: str = "timm", architecture: str = "test_resnet"
    ) -> None:
        more = PROMPTS if loader == "open_clip" else ""
        text = MODEL.format(source=source, loader=loader, architecture=architecture, more=more)
        self.write("registry/models/net.yaml", text)

    def run(self, *words: str) -> list[Any]:
        """[exit code, stdout, stderr] of a command on this workspace."""
        found: list[Any] = self.asker.value("command", ["--workspace", str(self.root), *words])
        return found

    def refusal(self, *words: str) -> str:
        """The last line but the summary that a command ends with."""
        code, _, told = self.run(*words)
        assert code != 0, told
        assert "Traceback" not in told, told
        lines: list[str] = [line for line in told.splitlines() if not line.startswith("HF_ENDPOINT")]
        return next((line for line in lines if "failed" in line and ":" in line), lines[-1])


Case = Callable[[Stage], str]


def read(name: str, make: Callable[[Path], bytes]) -> Case:
    """Weights of a package, where a pickle may be read by torch's restricted reader alone."""

    def case(stage: Stage) -> str:
        path = stage.root / name
        path.write_bytes(make(stage.canary))
        answer = stage.asker.ask("read_state", str(path))
        return str(answer["text"])

    return case


def hub_model(files: dict[str, bytes | Callable[[Path], bytes]], loader: str = "open_clip") -> Case:
    """Weights in a repository: locked, fetched and loaded."""

    def case(stage: Stage) -> str:
        made = {name: data if isinstance(data, bytes) else data(stage.canary) for name, data in files.items()}
        stage.hub.plant(made, "org/model")
        stage.model(loader=loader)
        code, _, told = stage.run("lock", "model/net")
        if code != 0:
            return str(told).splitlines()[-1]
        answer = stage.asker.ask("logits", str(stage.root), "net")
        return str(answer.get("text", "it loaded"))

    return case


def hub_generator(files: dict[str, bytes | Callable[[Path], bytes]]) -> Case:
    def case(stage: Stage) -> str:
        made = {name: data if isinstance(data, bytes) else data(stage.canary) for name, data in files.items()}
        stage.hub.plant(made, "org/generator")
        stage.write("registry/generators/edits.yaml", GENERATOR.format(files=", ".join(made)))
        code, _, told = stage.run("lock", "generator/edits")
        if code != 0:
            return str(told).splitlines()[-1]
        answer = stage.asker.ask("generator", str(stage.root), "edits")
        return str(answer.get("text", "it loaded"))

    return case


def hub_set(
    files: dict[str, bytes | Callable[[Path], bytes]], image: str = "image", label: str = "label"
) -> Case:
    def case(stage: Stage) -> str:
        made = {name: data if isinstance(data, bytes) else data(stage.canary) for name, data in files.items()}
        stage.hub.plant(made, "org/set", "datasets")
        source = (
            "  kind: hub\n  repo: org/set\n  revision: unresolved\n  split: test\n"
            f"  image_column: {image}\n  label_column: {label}"
        )
        stage.write("registry/datasets/tiny.yaml", DATASET.format(source=source, size=1))
        code, _, told = stage.run("lock", "dataset/tiny")
        if code != 0:
            return str(told).splitlines()[-1]
        return str(stage.asker.ask("rows", str(stage.root), "tiny").get("text", "it loaded"))

    return case


def entry(name: str, text: str) -> Case:
    """An entry that is refused by `check`."""

    def case(stage: Stage) -> str:
        stage.write(name, text.replace("CANARY", str(stage.canary)))
        return stage.refusal("check")

    return case


def arrays(stage: Stage) -> str:
    stage.write("data/set.npz", evil.evil_arrays(stage.canary))
    source = f"  kind: npz\n  file:\n    path: set.npz\n    sha256: '{stage.sha('set.npz')}'"
    stage.write("registry/datasets/tiny.yaml", DATASET.format(source=source, size=1))
    stage.run("lock", "dataset/tiny")
    return str(stage.asker.ask("rows", str(stage.root), "tiny")["text"])


def pickled_extension(canary: Path) -> bytes:
    """A Parquet file whose schema asks pyarrow to unpickle a type (CVE-2023-47248)."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": evil.evil_pickle(canary),
    }
    fields = [pa.field("image", pa.binary(), metadata=metadata), pa.field("label", pa.int64())]
    table = pa.table([pa.array([b"no image"]), pa.array([0])], schema=pa.schema(fields))
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def unsafe_environment(stage: Stage) -> str:
    asker = Asker(stage.hub, stage.root / "unsafe", TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")
    code, _, told = asker.value("command", ["--workspace", str(stage.root), "list"])
    asker.stop()
    assert code == 2
    return str(told)


def plugin(stage: Stage) -> str:
    stage.model(loader="plugin:evil", source="  kind: hub\n  repo: org/model\n  revision: unresolved")
    stage.hub.plant({"model.safetensors": evil.evil_pickle(stage.canary)}, "org/model")
    stage.run("lock", "model/net")
    return str(stage.asker.ask("logits", str(stage.root), "net")["text"])


WEIGHTS = "open_clip_model.safetensors"
CONFIG = "open_clip_config.json"
PNG = b"\x89PNG\r\n\x1a\n"
CASES: dict[str, tuple[Case, str]] = {
    "pickle.bin": (read("pytorch_model.bin", evil.evil_pickle), "is damaged, or holds more than tensors"),
    "checkpoint.pth": (read("net.pth", evil.evil_checkpoint), "holds more than tensors"),
    "legacy.pt": (read("net.pt", evil.evil_legacy), "holds more than tensors"),
    "pickle.pkl": (read("net.pkl", evil.evil_pickle), "expected a .safetensors file"),
    "lightning.ckpt": (read("net.ckpt", evil.evil_checkpoint), "expected a .safetensors file"),
    "export.pt2": (read("net.pt2", evil.evil_export), "expected a .safetensors file"),
    "weights.npz": (read("net.npz", evil.evil_arrays), "expected a .safetensors file"),
    "pickle as safetensors": (read("model.safetensors", evil.evil_pickle), "is damaged or cut short"),
    "only a pickle": (
        hub_model({"pytorch_model.bin": evil.evil_pickle}, "timm"),
        "holds no file 'model.safe",
    ),
    "model code": (
        hub_model(
            {
                "modeling.py": evil.evil_script,
                "config.json": b'{"auto_map": {"AutoModel": "modeling.Evil"}}',
                "model.safetensors": evil.evil_pickle,
            },
            "timm",
        ),
        "is damaged or cut short",
    ),
    "text model elsewhere": (
        hub_model({CONFIG: evil.clip_config(text_cfg__hf_model_name="evil/model"), WEIGHTS: b"x"}),
        "a text model from another repository is not loaded",
    ),
    "image model elsewhere": (
        hub_model({CONFIG: evil.clip_config(vision_cfg__timm_model_name="hf-hub:evil/model"), WEIGHTS: b"x"}),
        "timm has no architecture 'hf-hub:evil/model'",
    ),
    "pretrained tower": (
        hub_model({CONFIG: evil.clip_config(vision_cfg__timm_model_pretrained=True), WEIGHTS: b"x"}),
        "an image model from another repository is not loaded",
    ),
    "tokenizer arguments": (
        hub_model(
            {CONFIG: evil.clip_config(text_cfg__tokenizer_kwargs={"trust_remote_code": True}), WEIGHTS: b"x"}
        ),
        "'trust_remote_code' is no key",
    ),
    "tokenizer code": (
        hub_model(
            {
                CONFIG: evil.clip_config(),
                WEIGHTS: b"x",
                "tokenizer_config.json": b'{"auto_map": {"AutoTokenizer": ["tokenization.Evil", null]}}',
            }
        ),
        "auto_map: code and kernels from a repository are never run",
    ),
    "unknown key": (
        hub_model({CONFIG: evil.clip_config(custom_module="evil"), WEIGHTS: b"x"}),
        "'custom_module' is no key that open_clip is given",
    ),
    "custom pipeline": (
        hub_generator({"model_index.json": evil.pipeline(_class_name=["pipeline", "Evil"]), "a.json": b"{}"}),
        "_class_name: expected one of",
    ),
    "custom component": (
        hub_generator({"model_index.json": evil.pipeline(unet=["my_unet", "Evil"]), "a.json": b"{}"}),
        "is no known class of a library",
    ),
    "component of the system": (
        hub_generator({"model_index.json": evil.pipeline(unet=["os", "system"]), "a.json": b"{}"}),
        "is no known class of a library",
    ),
    "component code": (
        hub_generator(
            {
                "model_index.json": evil.pipeline(),
                "unet/config.json": b'{"auto_map": {"AutoModel": "x.Evil"}}',
            }
        ),
        "auto_map: code and kernels from a repository are never run",
    ),
    "kernels": (
        hub_generator(
            {
                "model_index.json": evil.pipeline(),
                "unet/config.json": b'{"quantization_config": {"a": "gguf"}}',
            }
        ),
        "quantization_config: code and kernels",
    ),
    "pipeline script": (
        hub_generator({"model_index.json": evil.pipeline(), "pipeline.py": evil.evil_script}),
        "pipeline.py: expected configurations and safetensors only",
    ),
    "pickled unet": (
        hub_generator(
            {"model_index.json": evil.pipeline(), "unet/diffusion_pytorch_model.bin": evil.evil_pickle}
        ),
        "expected configurations and safetensors only",
    ),
    "sample .pyd": (
        hub_set(
            {"test.tar": lambda canary: evil.tar({"a.png": PNG, "a.pyd": evil.evil_pickle(canary)})},
            "png",
            "pyd",
        ),
        "pickles and arrays are never read",
    ),
    "loading script": (hub_set({"set.py": evil.evil_script}), "no file of org/set has a known SHA-256"),
    "pickled extension": (hub_set({"test.parquet": pickled_extension}), "not a PNG, JPEG or WebP image"),
    "arrays.npz": (arrays, "object"),
    "yaml tag": (
        entry("registry/models/net.yaml", "name: !!python/object/apply:os.system [touch CANARY]\n"),
        "expected a plain value, got the tag",
    ),
    "pipe": (
        entry(
            "registry/models/net.yaml",
            MODEL.format(
                source="  kind: hub\n  repo: 'pipe:touch CANARY'\n  revision: unresolved",
                loader="timm",
                architecture="x",
                more="",
            ),
        ),
        "repo: expected a Hub repository",
    ),
    "plugin": (plugin, "runs code that is not part of robustboard"),
    "unsafe environment": (unsafe_environment, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set"),
}
assert len(CASES) >= 30
