import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  readRequirement,
  requirementLines,
  tableRequirement,
} from "../../../../src/apps/builds/requirement-line.ts";

describe("a requirement", () => {
  test.each([
    ["numpy", "numpy"],
    ["Ruamel_Yaml.Clib == 1.0", "ruamel-yaml-clib==1.0"],
    ["torch>=2.0,<3,!=2.1.*", "torch>=2.0,<3,!=2.1.*"],
    ["requests[socks, Security] (~=2.0)", "requests[socks,security]~=2.0"],
    ["a==1.0+cu118", "a==1.0+cu118"],
    [
      "a ; python_version < '3.12' and sys_platform == \"linux\"",
      "a ; python_version < '3.12' and sys_platform == \"linux\"",
    ],
    ["a;(extra == 'x')", "a ; (extra == 'x')"],
    ["a @ https://host.test/a-1.0.whl", "a @ https://host.test/a-1.0.whl"],
    [
      "a@https://host.test/a.zip#sha256=00 ; os_name == 'posix'",
      "a @ https://host.test/a.zip#sha256=00 ; os_name == 'posix'",
    ],
    ["a @ git+https://host.test/a.git@main", "a @ git+https://host.test/a.git@main"],
    ["https://host.test/a-1.0-py3-none-any.whl", "https://host.test/a-1.0-py3-none-any.whl"],
    ["git+https://host.test/a#egg=a", "git+https://host.test/a#egg=a"],
    ["a==1 --hash=sha256:BB --hash sha256:aa", "a==1 --hash=sha256:aa --hash=sha256:bb"],
  ])("%s is taken as %s", (line, text) => {
    expect(readRequirement(line)).toEqual({ kind: "package", text });
  });

  test.each([
    ["./wheels/a.whl", { kind: "local", path: "./wheels/a.whl", after: "" }],
    ["a.whl --hash=sha256:00", { kind: "local", path: "a.whl", after: " --hash=sha256:00" }],
    ["./folder", { kind: "local", path: "./folder", after: "" }],
    ["-r other.txt", { kind: "requirements", path: "other.txt" }],
    ["-rother.txt", { kind: "requirements", path: "other.txt" }],
    ["--requirement=./other.txt", { kind: "requirements", path: "./other.txt" }],
    ["-c limits.txt", { kind: "constraints", path: "limits.txt" }],
    ["--find-links ./wheels", { kind: "links", path: "./wheels" }],
    ["-f wheels", { kind: "links", path: "wheels" }],
    ["--pre", { kind: "flag", flag: "--pre" }],
    ["--no-index", { kind: "flag", flag: "--no-index" }],
  ])("%s stays in the bundle", (line, read) => {
    expect(readRequirement(line)).toEqual(read);
  });

  test.each([
    ["--index-url https://host.test/simple", /sets a package index/],
    ["-i https://host.test/simple", /sets a package index/],
    ["--extra-index-url=https://host.test", /sets a package index/],
    ["--trusted-host host.test", /sets a package index/],
    ["-e .", /editable/],
    ["--editable=./x", /editable/],
    ["git+ssh://git@host.test/x", /unsupported URL/],
    ["a @ git+ssh://git@host.test/x", /unsupported URL/],
    ["git+file:///etc", /unsupported URL/],
    ["http://host.test/a.whl", /unsupported URL/],
    ["a @ file:///etc/passwd", /file/],
    ["file:./a.whl", /file/],
    ["/etc/a.whl", /in the bundle/],
    ["~/a.whl", /in the bundle/],
    ["../a.whl", /without \.\./],
    ["./a/../../b", /without \.\./],
    ["-r ../other.txt", /without \.\./],
    ["-r /etc/passwd", /in the bundle/],
    ["-r https://host.test/r.txt", /only a path/],
    ["-r", /in the bundle/],
    ["--find-links https://host.test", /only a path/],
    ["a; rm -rf /", /option/],
    ["a ; touch x", /condition/],
    ["a && touch x", /version/],
    ["a | cat", /version/],
    ["a $(touch x)", /character/],
    ["a `touch x`", /character/],
    ["a @ https://${PIP_TOKEN}@host.test/a.whl", /character/],
    ["a\u0000b", /character/],
    ["a==1 --install-option=--prefix=/", /option/],
    ["a --global-option x", /option/],
    ["a -e .", /option/],
    ["--target /", /option/],
    ["--config-settings x=y", /option/],
    ["a==", /version/],
    ["a = 1", /version/],
    ["(a)", /not a requirement/],
  ])("%s is refused", (line, why) => {
    expect(readRequirement(line)).toEqual({ kind: "refused", why: expect.stringMatching(why) });
  });

  test("nothing that is taken can be read as an option or as a second line", () => {
    const pieces = fc.constantFrom(
      "a",
      " ",
      "-",
      "--",
      "@",
      "https://h.test/",
      ";",
      "'",
      "==",
      "1",
      "[x]",
      "\n",
      "\\",
      "$",
    );
    const line = fc.oneof(
      fc.string(),
      fc.array(pieces, { maxLength: 12 }).map((all) => all.join("")),
    );
    fc.assert(
      fc.property(line, (text) => {
        const read = readRequirement(text.trim());
        if (read.kind !== "package") return;
        expect(read.text).not.toMatch(/^-|[\n\r\0]/);
        expect(read.text.replaceAll(/ --hash=sha\d+:[0-9a-f]+/g, "")).not.toMatch(/\s--?[a-z]/i);
        // What is written is read again as the same.
        expect(readRequirement(read.text)).toEqual(read);
      }),
      { numRuns: 2_000 },
    );
  });
});

test("the lines of a file: continued ones joined, comments left out", () => {
  const text = "\n# first \\\na \\\n  >= 1 # why\n\n  b\r\nc#not-a-comment\nd \\";
  expect(requirementLines(text)).toEqual([
    { number: 3, text: "a   >= 1" },
    { number: 6, text: "b" },
    { number: 7, text: "c#not-a-comment" },
    { number: 8, text: "d" },
  ]);
});

test.each([
  ["a", "", "a"],
  ["a", "latest", "a"],
  ["a", "*", "a"],
  ["a", "1.2.3", "a==1.2.3"],
  ["a[x]", ">=1,<2", "a[x] >=1,<2"],
  ["a", "git+https://host.test/a", "a @ git+https://host.test/a"],
  ["git+https://host.test/a", "latest", "git+https://host.test/a"],
])("the entry %s = %s of a table is the line %s", (name, spec, line) => {
  expect(tableRequirement(name, spec)).toBe(line);
  expect(readRequirement(line).kind).toBe("package");
});
