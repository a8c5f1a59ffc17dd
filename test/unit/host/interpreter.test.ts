import { expect, test } from "vitest";
import { findInterpreter, pythonTag, runsOn, versionOfTag } from "../../../src/host/interpreter.ts";

const MADE = "3.11 cpython-311-x86_64-linux-gnu glibc 2.36";

test("a Python tells what packages run on it", async () => {
  const python = await findInterpreter("python3");
  const tag = await pythonTag(python);
  expect(versionOfTag(tag ?? "")).toBe(python.version.split(".").slice(0, 2).join("."));
  expect(runsOn(tag!, tag!)).toBe(true);
  expect(await pythonTag({ path: "/bin/false" })).toBeNull();
  expect(await pythonTag({ path: "/no/such/python" })).toBeNull();
});

test("packages run on the same Python and platform with a C library that is as new", () => {
  for (const here of [MADE, MADE.replace("2.36", "2.36.1"), MADE.replace("2.36", "2.40")])
    expect([here, runsOn(MADE, here)]).toEqual([here, true]);
  for (const here of [
    MADE.replace("2.36", "2.9"),
    MADE.replace("2.36", "2.35"),
    MADE.replace("glibc", "musl"),
    MADE.replace("x86_64", "aarch64"),
    MADE.replaceAll("311", "312").replace("3.11", "3.12"),
    "",
    "anything else",
  ])
    expect([here, runsOn(MADE, here)]).toEqual([here, false]);
  expect(runsOn("none", "none")).toBe(false);
  expect(versionOfTag("3.11")).toBeNull();
});
