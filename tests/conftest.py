"""The tests' tensors are tiny: one thread is fastest, and leaves the other cores to whoever else is at work."""

import os
import signal

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach the network; those of the hub's client speak to a server of ours

settings.register_profile("heedful", deadline=None)  # how long an example takes is a benchmark's question
settings.load_profile("heedful")

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as a shell leaves it in what it starts with &, and so do children
    signal.signal(signal.SIGINT, signal.default_int_handler)
