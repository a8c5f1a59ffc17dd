import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { randomName } from "../../../src/kit/ids.ts";
import { APP_NAME, appId, FUNCTION_NAME, PROJECT_ID, RUN_ID } from "../../../src/model/names.ts";
import { verifies } from "../../verifies.ts";

describe("app names", () => {
  verifies("app.name", "are 1 to 63 lower-case letters, digits and inner dashes", () => {
    for (const good of ["a", "7", "a-b", "a--b", "my-app-2", "a".repeat(63), `a${"-".repeat(61)}b`]) {
      expect(good).toMatch(APP_NAME);
    }
    for (const bad of ["", "-", "-a", "a-", "A", "a_b", "a.b", "a/b", "a b", "ä", "a\n", "a".repeat(64)]) {
      expect(bad).not.toMatch(APP_NAME);
    }
  });

  test("never need escaping in a path or leave their folder", () => {
    fc.assert(
      fc.property(fc.stringMatching(APP_NAME), (name) => {
        expect(encodeURIComponent(name)).toBe(name);
        expect(name).not.toContain("..");
      }),
    );
  });

  verifies("app.id", "make the app id with their project's", () => {
    expect(appId("p-1a2b3c4d", "hello")).toBe("p-1a2b3c4d-hello");
  });
});

describe("project ids", () => {
  test("begin with p- and hold what we mint", () => {
    expect(`p-${randomName(8)}`).toMatch(PROJECT_ID);
    for (const bad of [
      "",
      "p-",
      "p",
      "q-12345678",
      "P-12345678",
      "p-ABC",
      "p-a_b",
      "p-a-b",
      "p-a\n",
      " p-a",
    ]) {
      expect(bad).not.toMatch(PROJECT_ID);
    }
  });

  test("end where the app's name begins, so no two apps share an id", () => {
    const project = fc.stringMatching(PROJECT_ID);
    const name = fc.stringMatching(APP_NAME);
    fc.assert(
      fc.property(project, name, (projectId, appName) => {
        const [, owner, app] = /^(p-[a-z0-9]+)-(.*)$/.exec(appId(projectId, appName)) ?? [];
        expect([owner, app]).toEqual([projectId, appName]);
      }),
    );
  });
});

test("a function's name is a Python name without a leading underscore", () => {
  for (const good of ["run", "Run", "run_2", "a".repeat(128)]) expect(good).toMatch(FUNCTION_NAME);
  for (const bad of ["", "_run", "__init__", "2run", "run-2", "run.x", "run()", "run\n", "a".repeat(129)]) {
    expect(bad).not.toMatch(FUNCTION_NAME);
  }
});

test("a run's id is a UUID in lower case", () => {
  expect("0197c3a0-7e1b-7abc-8def-0123456789ab").toMatch(RUN_ID);
  for (const bad of ["", "0197C3A0-7E1B-7ABC-8DEF-0123456789AB", "0197c3a07e1b7abc8def0123456789ab"]) {
    expect(bad).not.toMatch(RUN_ID);
  }
});
