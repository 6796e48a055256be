"""The functions of tools/demo-hosts, which make namespaces with Ray nodes in them."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "demo-hosts"


def load_demo_hosts() -> ModuleType:
    """Load the tool as a module; its name is none that could be imported."""
    loader = importlib.machinery.SourceFileLoader("demo_hosts", str(_TOOL))
    spec = importlib.util.spec_from_loader("demo_hosts", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo_hosts"] = module
    loader.exec_module(module)
    return module
