"""Runs a Python program behind walls as on another host: an older Landlock, or a machine with NVIDIA GPUs, whose part
is played by devices that every host has.

Arguments: the harness, a folder for all it needs, the changes as JSON, then the program's code and its arguments.
"""

import json
import os
import sys

harness, folder, changes, code, *arguments = sys.argv[1:]
sys.path.insert(0, harness)

from millrace_agent import local  # noqa: E402
from millrace_walls import landlock, places  # noqa: E402

altered = json.loads(changes)
user = altered.pop("user", None)
if "landlock" in altered:
    version = int(altered.pop("landlock"))
    landlock.version = lambda: version
if altered.pop("nvidia", False):
    original = places.Places.__init__

    def with_nvidia(self: places.Places, plan: places.Plan) -> None:
        original(self, plan)
        self.has_nvidia = True

    places.Places.__init__ = with_nvidia

stand_ins = altered.pop("gpus", None)
if stand_ins is not None:
    names = [os.path.basename(path) for path in stand_ins["all"]]
    places.is_gpu = lambda name: name in names

fields = [("program", sys.executable), ("harness", harness), ("data_dir", os.path.join(folder, "data"))]
for name in ("bundle", "storage", "scratch"):
    place = os.path.join(folder, "data", name)
    os.makedirs(place, exist_ok=True)
    if user is not None:
        os.chown(place, int(user), int(user))
    fields.append((name, place))
fields += [(name, value) for name, value in altered.items()] + [("user", user)] * (user is not None)
if stand_ins is not None:
    fields += [("gpus", "assigned")]
    fields += [("gpu", path) for path in stand_ins["all"] if not stand_ins.get("none")]
    fields += [("granted_gpu", path) for path in stand_ins["granted"]]
fields += [("variable", "%s=%s/data/scratch" % (name, folder)) for name in ("HOME", "TMPDIR")]
for name in ("PATH", "LD_LIBRARY_PATH"):
    if name in os.environ:
        fields.append(("variable", "%s=%s" % (name, os.environ[name])))
fields += [("argument", each) for each in ("-c", code, *arguments)] + [("end", "")]
plan = b"".join(os.fsencode("%s=%s" % field) + b"\0" for field in fields)
told, tell = os.pipe()
if os.fork() == 0:
    os.close(told)
    with open(tell, "wb") as file:
        file.write(plan)
    os._exit(0)
os.close(tell)
os.dup2(told, 0)
local.main()
