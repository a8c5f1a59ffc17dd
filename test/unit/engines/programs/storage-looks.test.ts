import { expect, test } from "vitest";
import { scratchDirectory } from "../../../support/command-line.ts";
import { agentPython } from "../agent/agent-python.ts";

test("of a folder with too many entries, a storage helper holds no more than may be listed", () => {
  const code = String.raw`
import tracemalloc
from millrace_storage import changes, looks
root = sys.argv[1]
for index in range(10_000):
    os.symlink("x", "%s/%06d-%s" % (root, index, "a" * 100))
os.mkdir(root + "/.millrace-staged-x")
tracemalloc.start()
try:
    refused = looks.entries(root, [], 10)
except looks.Refused as error:
    refused = str(error)
changes.sweep(root, True)
peak = tracemalloc.get_traced_memory()[1]
staged = [name for name in os.listdir(root) if name.startswith(".")]
print(json.dumps([refused, staged, peak < 500_000]))
`;
  const refused = "is a folder with more than 10 entries, too many to list";
  expect(agentPython(code, scratchDirectory())).toEqual([refused, [], true]);
});

test("an archive of a storage has no name twice, even if files are replaced while it is read", () => {
  const code = String.raw`
from millrace_storage import looks
root = sys.argv[1]
for name in "ab":
    open(os.path.join(root, name), "w").close()
# As a file system does that names a file once more when it was removed and made again.
listdir, scandir = os.listdir, os.scandir
class Twice:
    def __init__(self, folder):
        with scandir(folder) as entries:
            self.entries = iter([*entries] * 2)
    def __iter__(self):
        return self.entries
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
os.listdir, os.scandir = lambda folder: listdir(folder) * 2, Twice
print(json.dumps([each["name"] for each in looks.told(root) if each["kind"] == "file"]))
`;
  expect(agentPython(code, scratchDirectory())).toEqual(["a", "b"]);
});
