import { expect, test } from "vitest";
import { agentPython } from "./agent-python.ts";

const MAKE = `
import gzip, hashlib, tarfile, tempfile
from millrace_agent import files
from millrace_agent.unpack import BadArchive, unpack

def entry(name, data=b"", kind=b"0"):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)

def outcome(body, fit_at=None):
    body += entry("ready", (fit_at or "/made").encode())
    body += entry("sha256", hashlib.sha256(body).hexdigest().encode()) + bytes(1024)
    with tempfile.TemporaryDirectory() as top:
        packed, into = top + "/packed", top + "/environment"
        os.mkdir(into)
        with open(packed, "wb") as file:
            file.write(gzip.compress(body, 1))
        try:
            made_at = unpack(packed, into, "ready")
            if fit_at:
                files.fit(into, made_at)
        except BadArchive as error:
            return str(error)
        return "unpacked"
`;

test("an agent refuses extended headers that take long to read, and a link with content", () => {
  const code = String.raw`${MAKE}
headers = {
    "large": b"4096 path=" + b"a" * 4085 + b"\n" + b"5000 linkpath=" + b"a" * 4985 + b"\n",
    "many": b"".join(b"6 %c=b\n" % each for each in b"abcdefghijklmnopqrs"),
    "the same again": b"6 a=b\n" * 2,
}
said = {name: outcome(entry("pax", header, b"x") + entry("file")) for name, header in headers.items()}
said["link"] = outcome(entry("pax", b"12 size=512\n", b"x") + entry("link", b"", b"2") + entry("inner"))
said["honest"] = outcome(entry("pax", b"10 path=b\n", b"x") + entry("file"))
print(json.dumps(said))
`;
  expect(agentPython(code)).toEqual({
    large: "a header is too large",
    many: "a broken extended header",
    "the same again": "a broken extended header",
    link: "an entry of a kind that is not allowed",
    honest: "unpacked",
  });
});

test("an environment that says it was made at / does not fill the disk of the agent's machine", () => {
  const code = String.raw`${MAKE}
files._MAX_GROWN_CHARS = 1024 * 1024
scripts = b"".join(entry("bin/script-%d" % each, b"/" * 32 * 1024) for each in range(4))
environment = entry("bin", b"", b"5") + entry("pyvenv.cfg", b"home = /made\n")
print(json.dumps([outcome(environment + scripts, "/"), outcome(environment + scripts, "/made")]))
`;
  expect(agentPython(code)).toEqual(["its scripts name the place where it was made too often", "unpacked"]);
});

test("an environment whose pyvenv.cfg is a folder is refused, and leaves nothing open", () => {
  const code = String.raw`${MAKE}
environment = entry("bin", b"", b"5") + entry("pyvenv.cfg", b"", b"5")
before = len(os.listdir("/proc/self/fd"))
print(json.dumps([outcome(environment, "/made"), len(os.listdir("/proc/self/fd")) - before]))
`;
  expect(agentPython(code)).toEqual(["it has no pyvenv.cfg that could be read", 0]);
});
