"""The tests' tensors are tiny: one thread is fastest, and leaves the other cores to whoever else is at work."""

import os
import signal

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach the network; those of the hub's client speak to a server of ours

settings.register_profile("heedful", deadline=None)  # how long an example takes is a benchmark's question
settings.load_profile("heedful")

# A shell has what it starts with & ignore interrupts, and children inherit that; some tests interrupt theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
