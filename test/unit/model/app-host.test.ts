import { expect, test } from "vitest";
import { hashedLabel, hostLabel, mayBeHashed, readHostLabel } from "../../../src/model/app-host.ts";
import { verifies } from "../../verifies.ts";

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
