import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { randomName } from "../../../src/kit/ids.ts";
import {
  APP_NAME,
  appId,
  FUNCTION_NAME,
  hashedLabel,
  hostLabel,
  mayBeHashed,
  PROJECT_ID,
  readHostLabel,
  RUN_ID,
} from "../../../src/model/names.ts";
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

const PROJECT = "p-abcdefgh";

/** Names of that many characters. */
const named = (chars: number) => ({ projectId: PROJECT, appName: "a".repeat(chars) });

verifies("origins.label", "a label names its app, and is split at the last two dashes", () => {
  for (const appName of ["a", "app", "my-app", "a--b", "p-1", "a--p-1", "1", "x-n", "xna", "xn-a"]) {
    const app = { appName, projectId: PROJECT };
    expect(hostLabel(app)).toBe(`${appName}--${PROJECT}`);
    expect(readHostLabel(`${appName}--${PROJECT}`)).toEqual(app);
    expect(hashedLabel(app)).toBeNull();
  }
  for (const label of [
    "",
    "--",
    "a",
    "a--",
    `--${PROJECT}`,
    `a-${PROJECT}`,
    `a---${PROJECT}`,
    "a--p-",
    "a--P-1",
  ])
    expect([label, readHostLabel(label)]).toEqual([label, null]);
});

verifies("origins.label", "a label of more than 63 characters has a hash in place of its end", () => {
  expect(hostLabel(named(51))).toHaveLength(63);
  expect(hashedLabel(named(51))).toBeNull();
  // As `base64.b32encode(hashlib.sha256(...).digest())` of Python gives it, in lower case.
  expect(hostLabel(named(60))).toBe(`${"a".repeat(40)}-azjzhsyn5jjotvevlo3p`);
  for (const chars of [52, 60, 63]) {
    const label = hostLabel(named(chars)) ?? "";
    expect(label).toMatch(/^a{40}-[a-z2-7]{20}$/);
    expect([hashedLabel(named(chars)), mayBeHashed(label), readHostLabel(label)]).toEqual([
      label,
      true,
      null,
    ]);
    // The long form is no label at all.
    expect(readHostLabel(`${"a".repeat(chars)}--${PROJECT}`)).toBeNull();
  }
  const longProject = { projectId: `p-${"b".repeat(40)}`, appName: "a".repeat(20) };
  expect(hostLabel(longProject)).toMatch(/^a{20}-[a-z2-7]{20}$/);
});

verifies("origins.punycode", "a name that browsers take for an encoded one gets no host", () => {
  for (const appName of ["xn", "xn--a", `xn--${"a".repeat(59)}`]) {
    const app = { appName, projectId: PROJECT };
    expect([appName, hostLabel(app), hashedLabel(app)]).toEqual([appName, null, null]);
    expect(readHostLabel(`${appName}--${PROJECT}`)).toBeNull();
  }
});

test("labels of two apps are never the same, however their names are cut", () => {
  const cut = "a".repeat(37);
  const names = [
    `${cut}--p-1-${"b".repeat(20)}`,
    `${cut}--p-2-${"b".repeat(20)}`,
    `${cut}-${"c".repeat(25)}`,
  ];
  const labels = names.map((appName) => hostLabel({ appName, projectId: PROJECT }));
  expect(new Set(labels).size).toBe(names.length);
});
