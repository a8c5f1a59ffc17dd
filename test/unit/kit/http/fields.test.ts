import { expect } from "vitest";
import { isHost, isPlainlyChunked } from "../../../../src/kit/http/fields.ts";
import { FINE_HOSTS, NO_HOSTS } from "../../../support/hosts.ts";
import { verifies } from "../../../verifies.ts";

verifies("hardening.host", "a host is a name or an address, perhaps with a port, and nothing else", () => {
  expect(NO_HOSTS.filter(isHost)).toEqual([]);
  expect(FINE_HOSTS.filter((host) => !isHost(host))).toEqual([]);
  // The one that was fine is remembered; what is asked next is looked at all the same.
  expect([isHost("a.example"), isHost("a.example"), isHost("a.example/"), isHost("")]).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

verifies("hardening.framing", "chunked is the one transfer encoding, and HTTP/1.0 has none", () => {
  expect(["chunked", " Chunked\t"].map((value) => isPlainlyChunked(value, "1.1"))).toEqual([true, true]);
  for (const value of ["", "identity", "identity, chunked", "chunked, chunked", "chunked;q=1", "xchunked"]) {
    expect(isPlainlyChunked(value, "1.1")).toBe(false);
  }
  expect(isPlainlyChunked("chunked", "1.0")).toBe(false);
});
