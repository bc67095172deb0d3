"""llama.cpp's own HTTP server, from its wheel.

Run by the engine's own Python: `llama_server.py MODEL.gguf PORT WINDOW SLOTS ALIAS`.
"""

import signal
import sys
import threading

import xllamacpp

model, port, window, slots, alias = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path, params.model_alias = model, {alias}
params.hostnames, params.port = ["127.0.0.1"], int(port)
params.n_ctx, params.n_parallel = int(window), int(slots)
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.endpoint_props = params.endpoint_slots = True
signal.signal(signal.SIGTERM, signal.SIG_DFL)
server = xllamacpp.Server(params)
print("listening", flush=True)
threading.Event().wait()
