import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

/** A service that turns two connections away, one before TLS and one after it, and one that refuses all of them. */
const PLAY = `
import socket, ssl, sys
sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_agent import files
files._PAUSES_SECONDS = (0,) * 3
ends = [ConnectionResetError(), ssl.SSLEOFError()]
class Context:
    def wrap_socket(self, plain, server_hostname):
        if ends:
            raise ends.pop()
        return plain
listener = socket.create_server(("127.0.0.1", 0))
with files.connect(Context(), listener.getsockname(), "millrace 1 blob"):
    for last in (False, False, True):
        with listener.accept()[0] as came:
            print(came.recv(100) if last else "turned away")
listener.close()
try:
    files.connect(Context(), ("127.0.0.1", 1), "")
except ConnectionRefusedError:
    print("refused")
`;

verifies("seats.crowd", "what an agent fetches is asked for again when it was turned away", () => {
  const printed = execFileSync("python3", ["-I", "-c", PLAY], { encoding: "utf8" });
  expect(printed.trim().split("\n")).toEqual([
    "turned away",
    "turned away",
    "b'millrace 1 blob\\n'",
    "refused",
  ]);
});
