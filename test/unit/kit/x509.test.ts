import { execFileSync, spawnSync } from "node:child_process";
import { X509Certificate, createPrivateKey } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { NO_END, makeAuthority, makeLeaf } from "../../../src/kit/x509.ts";

const FROM = new Date("2026-03-04T05:06:07Z");
const AUTHORITY = {
  name: "An authority",
  ...makeAuthority({ name: "An authority", from: FROM, until: NO_END }),
};
const LEAF = makeLeaf(
  { name: "one.example", from: FROM, until: new Date("2049-12-31T23:59:59Z") },
  AUTHORITY,
);

/** Without it, what Node says of them has to do. */
const hasOpenssl = spawnSync("openssl", ["version"]).status === 0;

function scratch(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-x509-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

test("an authority signs itself and others, and Node reads what it wrote", () => {
  const authority = new X509Certificate(AUTHORITY.certificate);
  expect(authority.ca).toBe(true);
  expect(authority.subject).toBe("CN=An authority");
  expect(authority.verify(authority.publicKey)).toBe(true);
  expect(authority.validToDate).toEqual(NO_END);
  const leaf = new X509Certificate(LEAF.certificate);
  expect(leaf.ca).toBe(false);
  expect(leaf.verify(authority.publicKey)).toBe(true);
  expect(leaf.checkIssued(authority)).toBe(true);
  expect(leaf.checkPrivateKey(createPrivateKey(LEAF.key))).toBe(true);
  expect([leaf.validFromDate, leaf.validToDate]).toEqual([FROM, new Date("2049-12-31T23:59:59Z")]);
  expect(leaf.subjectAltName).toBe("DNS:one.example");
  expect(leaf.checkHost("one.example")).toBe("one.example");
  expect(leaf.checkHost("two.example")).toBeUndefined();
});

test.each([2049, 2050])("dates of %s are written as they have to be", (year) => {
  const until = new Date(Date.UTC(year, 5, 7, 8, 9, 10));
  const leaf = makeLeaf({ name: "one.example", from: FROM, until }, AUTHORITY);
  expect(new X509Certificate(leaf.certificate).validToDate).toEqual(until);
});

test.runIf(hasOpenssl).each(["sslserver", "sslclient"])(
  "openssl takes a leaf for a good one: %s",
  (purpose) => {
    const folder = scratch({ "ca.pem": AUTHORITY.certificate, "leaf.pem": LEAF.certificate });
    const said = execFileSync(
      "openssl",
      ["verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", purpose, "leaf.pem"],
      { cwd: folder, encoding: "utf8" },
    );
    expect(said).toBe("leaf.pem: OK\n");
  },
);

test.runIf(hasOpenssl)("openssl takes no leaf of another authority of the same name", () => {
  const other = makeAuthority({ name: "An authority", from: FROM, until: NO_END });
  const folder = scratch({ "ca.pem": other.certificate, "leaf.pem": LEAF.certificate });
  const verify = (): unknown =>
    execFileSync("openssl", ["verify", "-CAfile", "ca.pem", "leaf.pem"], { cwd: folder, stdio: "pipe" });
  expect(verify).toThrow("verification failed");
});
