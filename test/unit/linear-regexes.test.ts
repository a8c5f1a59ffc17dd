import { expect, test } from "vitest";
import { readRequirement, requirementLines } from "../../src/apps/builds/requirement-line.ts";
import { createLog } from "../../src/kit/log.ts";
import { regexesIn, slowText } from "../support/regex-attack.ts";
import { readSources } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

/** Slow on some texts, but nobody from outside chooses these. */
const OWN_TEXTS: ReadonlySet<string> = new Set([
  String.raw`src/apps/builds/pip-settings.ts ^([^=:\s][^=:]*?)\s*[=:]\s*(.*)$`, // the host's pip.conf
  String.raw`src/apps/builds/pip-wheel.ts \/+$`, // the host's index
  String.raw`src/apps/bundles/list-files.ts \/+$`, // a folder that is installed from this machine
  String.raw`src/apps/bundles/list-files.ts \*\*+\/|\*+|\?|\[(!?)([^\]]+)\]|[\\^$.|+(){}[\]]`,
  String.raw`src/cli/client/site.ts \/+$`, // what was typed
  String.raw`src/client/transport.ts \/+$`, // the address that a program gives its own client
  String.raw`src/config/readers.ts \/+$`, // settings of the service
  String.raw`src/config/problems.ts ^.*:.*@`,
  String.raw`src/kit/units.ts (\d+(?:\.\d+)?)(ms|[dhms])`, // only what the expression before it has taken
  String.raw`src/management/api/addresses.ts \/+$`, // the public address
]);

verifies(
  "hardening.linear",
  "no expression that meets a text from outside looks at a place again and again",
  () => {
    const slow = regexesIn(readSources(["src"], [".ts"]))
      .filter(({ file, regex }) => !OWN_TEXTS.has(`${file} ${regex.source}`))
      .flatMap(({ file, regex }) => {
        const text = slowText(regex);
        return text === null ? [] : [`${file}: ${regex} is slow on ${JSON.stringify(text)}…`];
      });
    expect(slow).toEqual([]);
  },
);

test("the search finds what it looks for", () => {
  const planted = String.raw`const A = /^(a+)+$/; const B = /\s+;/; const C = /^x\s*(y)?\s*(.*)$/; const D = /^[a-z]+$/;`;
  const found = regexesIn(new Map([["planted.ts", planted]]));
  expect(found.map(({ regex }) => slowText(regex) !== null)).toEqual([true, true, true, false]);
});

const SPACES = " ".repeat(100_000);

/** So large that the slow way would take hours. */
const REQUIREMENTS = [
  `a${SPACES}x\u2028x`,
  `a${SPACES}[b]${SPACES}x`,
  `a${" #".repeat(100_000)}\u2028x`,
  `a @ https://x${SPACES}y`,
  `a @ https://x${" ;".repeat(50_000)}y`,
  `-r${SPACES}x\u2028x`,
  `-r${SPACES}=${SPACES}x\u2029x`,
  `a>=1${SPACES}x`,
  `a${">=1 , ".repeat(100_000)}x`,
  `a --hash${SPACES}sha256:${"0".repeat(80_000)}g`,
  `a ; platform_${"a".repeat(200_000)}\u00e9`,
  `a ; python_version ${SPACES}\u00e9`,
  `a ;${"(".repeat(200_000)}x`,
  `a${"-".repeat(200_000)}`,
];

verifies("hardening.linear", "a list of packages is read in one pass, whatever stands in it", () => {
  for (const text of REQUIREMENTS) {
    const [line] = requirementLines(text);
    const read = readRequirement(line?.text ?? "");
    expect(["package", "refused", "requirements"]).toContain(read.kind);
  }
});

verifies("hardening.linear", "a log looks for tokens in one pass", () => {
  const lines: string[] = [];
  const log = createLog("info", { write: (line) => lines.push(line) });
  for (const piece of ["eyJ", "eyJa.", "?", "?a", "&token", "://", "a://a"]) {
    log.info({ traceback: piece.repeat(200_000 / piece.length) }, "an app failed");
  }
  expect(lines).toHaveLength(7);
});
