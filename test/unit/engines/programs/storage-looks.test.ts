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
