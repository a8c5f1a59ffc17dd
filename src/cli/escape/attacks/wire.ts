import type { Attack } from "../attack.ts";
import { attack } from "../attack.ts";

/** Said on the replica's own wire; where the service goes on as if nothing was, it has succeeded. */
const said = (name: string, code: string): Attack => ({ ...attack("service", name, code), from: "replica" });

/** Ways to be taken for somebody else, or to tell the service what is not so. */
export const WIRE: readonly Attack[] = [
  said(
    "answer a call that it was not given",
    `send_frame(4, 4000, struct.pack("<dH", 1, 200) + b'"forged"')`,
  ),
  said(
    "answer the next call before it comes",
    `send_frame(4, harness("call_id") + 1, struct.pack("<dH", 1, 200) + b'"forged"')`,
  ),
  said(
    "answer with what is not JSON",
    `send_frame(4, harness("call_id"), struct.pack("<dH", 1, 200) + b"{")`,
  ),
  said(
    "answer with a time that never was",
    `send_frame(4, harness("call_id"), struct.pack("<dH", -1, 200) + b"1")`,
  ),
  said("fail another's call", `send_frame(5, 4000, b'{"kind": "raised"}')`),
  said("stream for a call that it was not given", `send_frame(7, 4000, b"\\0forged")`),
  said("say hello again", `send_frame(2, 0, b"{}")`),
  said("cancel what nobody cancelled", `send_frame(9, harness("call_id"), b"")`),
  said("say what no replica says", `send_frame(200, harness("call_id"), b"")`),
  said("announce more than there may be", `send_frame(4, harness("call_id"), b"", claimed=0xFFFFFFFF)`),
  attack(
    "service",
    "impersonate a replica with a guessed ticket",
    `require(bool(knock(b"millrace 1 wire " + b"0" * 32).recv(1)))`,
  ),
  attack(
    "service",
    "impersonate a template with a guessed ticket",
    `require(bool(knock(b"millrace 1 template " + b"f" * 32).recv(1)))`,
  ),
  attack(
    "service",
    "show its ticket a second time",
    `require(bool(knock(b"millrace 1 wire " + harness("ticket").encode()).recv(1)))`,
  ),
  attack(
    "service",
    "hide a second line in its request",
    String.raw`knock(b"millrace 1 wire " + b"0" * 32 + b"\nmillrace 1 control " + b"0" * 32)`,
  ),
  attack("service", "name another process as its own", `knock(b"millrace 1 wire " + b"0" * 32 + b" 1")`),
];
