# Of _built.py, which CMake writes (python/_built.py.in).
__version__: str
contract_version: str
torch_version: str
components: dict[str, bool]
