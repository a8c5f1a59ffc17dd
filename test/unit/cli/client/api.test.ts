import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { explain } from "../../../../src/cli/client/explain.ts";
import { checkedUrl, claimsOf, changeProfile, readProfiles } from "../../../../src/cli/client/site.ts";
import type { Site } from "../../../../src/cli/client/site.ts";
import { readMessages } from "../../../../src/cli/client/http.ts";
import { readArguments, readWords } from "../../../../src/cli/client/call-arguments.ts";
import { ERRORS } from "../../../../src/model/errors.ts";

const SITE: Site = {
  baseUrl: "http://one:4100",
  apiUrl: "http://one:4000",
  project: "p-one",
  token: "t",
  tokenSource: "MILLRACE_TOKEN",
};

describe("streams", () => {
  const STREAM =
    ": comment\n\ndata: one\n\nevent: named\nid: 7\ndata: two\r\ndata:  lines\r\n\r\ndata\n\ndata: é☃\r\rdata: cut off\n";

  test("messages are the same wherever the bytes are cut, and one that was cut off is none", async () => {
    const expected = [
      { id: null, event: null, data: "one" },
      { id: "7", event: "named", data: "two\n lines" },
      { id: null, event: null, data: "" },
      { id: null, event: null, data: "é☃" },
    ];
    const bytes = Buffer.from(STREAM);
    for (let size = 1; size <= bytes.length; size += 1) {
      const pieces = async function* () {
        for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
      };
      const found = [];
      for await (const message of readMessages(pieces())) found.push(message);
      expect([size, found]).toEqual([size, expected]);
    }
  });
});

describe("arguments of a call", () => {
  test("a function, pairs, and numbers as they were typed", async () => {
    expect(readWords(["chat", "a=1"])).toMatchObject({ functionName: "chat" });
    expect(readWords(["a=b=c"])).toEqual({ functionName: "run", pairs: [{ key: "a", json: '"b=c"' }] });
    const { pairs } = readWords(["n=12345678901234567890", "text=01", 'quoted="x"', "nothing=null"]);
    expect(await readArguments(undefined, pairs)).toBe(
      '{"n":12345678901234567890,"text":"01","quoted":"x","nothing":null}',
    );
    expect(await readArguments(' {"a": 1.50 } ', pairs.slice(0, 1))).toBe(
      '{"a": 1.50 ,"n":12345678901234567890}',
    );
    expect(await readArguments("{ }", pairs.slice(1, 2))).toBe('{ "text":"01"}');
  });
});

describe("profiles", () => {
  test("they are kept for their owner alone, whole, and read back", () => {
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-profiles-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    vi.stubEnv("XDG_CONFIG_HOME", folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    const file = path.join(folder, "millrace", "profiles.json");
    expect(readProfiles()).toEqual({ current: null, servers: {} });
    const profiles = { current: "http://one", servers: { "http://one": { token: "t" } } };
    changeProfile("http://one", { token: "t" }, true);
    changeProfile("http://one", { token: "t" });
    expect(readProfiles()).toEqual(profiles);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(path.dirname(file)).mode & 0o777).toBe(0o700);
    expect(readdirSync(path.dirname(file))).toEqual(["profiles.json"]);
    writeFileSync(file, "[]");
    expect(() => readProfiles()).toThrow("was not written by millrace");
  });
});

describe("addresses and tokens", () => {
  test("an address has one form, whatever was typed", () => {
    expect(["localhost:4100", "http://localhost:4100/", "HTTP://LOCALHOST:4100"].map(checkedUrl)).toEqual(
      Array.from({ length: 3 }, () => "http://localhost:4100"),
    );
    expect(checkedUrl("https://example.com/millrace/")).toBe("https://example.com/millrace");
    for (const bad of ["ftp://x", "http://a:b@c", "http://x?y", "::"])
      expect(() => checkedUrl(bad)).toThrow("not the address");
  });

  test("what is no token says nothing", () => {
    expect([claimsOf(""), claimsOf("a.b.c"), claimsOf("a.e30.c")]).toEqual([{}, {}, {}]);
  });
});

describe("errors of the service", () => {
  test("each of the catalogue becomes a line without a full stop, and none shows a stack", () => {
    for (const [code, { message, status }] of Object.entries(ERRORS)) {
      const failure = explain(status, JSON.stringify({ message, code, request_id: "r" }), SITE, {
        app: "hello",
      });
      expect([code, failure.message]).toEqual([code, expect.stringMatching(/^[^\n]*[^.\n]$/)]);
      expect([1, 2]).toContain(failure.exitCode);
    }
  });

  test("several faults are told once each", () => {
    const body = {
      message: "a: is bad; b: is worse",
      code: "bad_request",
      details: [{ field: "a", problem: "is bad" }],
    };
    expect(explain(400, JSON.stringify(body), SITE).detail.details).toBeUndefined();
    const other = { ...body, message: "The configuration cannot be used." };
    expect(explain(400, JSON.stringify(other), SITE).detail.details).toEqual(["a: is bad"]);
  });

  test("an answer that is not Millrace's is told as that", () => {
    for (const text of ["", "<html>", "null", "[]", '"x"']) {
      expect(explain(502, text, SITE).message).toBe(
        "http://one:4100 answered 502, but not the way Millrace does",
      );
    }
  });
});
