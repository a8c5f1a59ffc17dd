"""Uses an NVIDIA GPU in every way that apps do, and says of each how it went: "ok", or the error.

Prints one JSON object, without the uses that the arguments name. Needs PyTorch.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Callable

import torch
import torch.distributed
import torch.multiprocessing
from torch.utils.data import DataLoader, Dataset

WAIT_SECONDS = 120
TRITON = """
import triton, triton.language as tl
@triton.jit
def add_one(place, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(place + index, tl.load(place + index, mask=index < count) + 1, mask=index < count)
"""


def in_a_fork() -> None:
    """First: a process that has used the GPU cannot be forked."""
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.ones(3, device="cuda").sum().item() == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0


def start() -> None:
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0


def management() -> None:
    library = ctypes.CDLL("libnvidia-ml.so.1")
    count = ctypes.c_uint()
    assert library.nvmlInit_v2() == 0 and library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value > 0


def program() -> None:
    if shutil.which("nvidia-smi") is not None:
        assert "GPU 0" in subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout


def kernels() -> None:
    matrix = torch.eye(512, device="cuda")
    assert (matrix @ matrix).sum().item() == 512


def pinned() -> None:
    assert torch.ones(1 << 20, pin_memory=True).to("cuda", non_blocking=True).sum().item() == 1 << 20


def managed() -> None:
    cuda, place, size = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), 1 << 20
    assert cuda.cuMemAllocManaged(ctypes.byref(place), ctypes.c_size_t(size), 1) == 0
    ctypes.memset(place.value, 7, size)
    assert cuda.cuMemFree_v2(place) == 0


def graphs() -> None:
    counter, graph = torch.zeros(1, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counter.add_(1)
    graph.replay()
    assert counter.item() == 1


def compiled() -> None:
    """A kernel that is compiled here, with the C compiler and the assembler of the host."""
    try:
        __import__("triton")
    except ImportError:
        return
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "added.py"), "w", encoding="ascii") as file:
            file.write(TRITON)
        sys.path.insert(0, folder)
        import added

        place = torch.zeros(1000, device="cuda")
        added.add_one[(1,)](place, 1000, BLOCK=1024)
        assert place.sum().item() == 1000


def _double(given: "torch.multiprocessing.Queue", gives: "torch.multiprocessing.Queue") -> None:
    for _ in range(2):
        tensor = given.get()
        gives.put(float(tensor.sum().item()))
        del tensor


def shared() -> None:
    """Memory of the GPU, and of the host, in another process of the app."""
    context = torch.multiprocessing.get_context("spawn")
    given, gives = context.Queue(), context.Queue()
    child = context.Process(target=_double, args=(given, gives))
    child.start()
    try:
        for place in ("cuda", "cpu"):
            tensor = torch.ones(1000, device=place)
            given.put(tensor)
            assert gives.get(timeout=WAIT_SECONDS) == 1000
        child.join(WAIT_SECONDS)
    finally:
        child.kill()


class Numbers(Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((100,), float(index))


def loaded() -> None:
    batches = DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True, timeout=WAIT_SECONDS)
    assert sum(batch.cuda().sum().item() for batch in batches) == 100 * sum(range(64))


def collective() -> None:
    """NCCL with a single rank."""
    store = "file://%s/store" % tempfile.mkdtemp()
    torch.distributed.init_process_group("nccl", init_method=store, rank=0, world_size=1)
    tensor = torch.ones(10, device="cuda")
    torch.distributed.all_reduce(tensor)
    assert tensor.sum().item() == 10
    torch.distributed.destroy_process_group()


def tried(use: Callable[[], None]) -> str:
    try:
        use()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        return "%s: %s" % (type(error).__name__, str(error).strip().split("\n")[-1])
    return "ok"


USES = (
    *(in_a_fork, start, management, program, kernels, pinned, managed, graphs),
    *(compiled, shared, loaded, collective),
)

if __name__ == "__main__":
    print(json.dumps({use.__name__: tried(use) for use in USES if use.__name__ not in sys.argv[1:]}))
