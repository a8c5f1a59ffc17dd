import { expect } from "vitest";
import { wayBack } from "../../../web/api/way-back.ts";
import { verifies } from "../../verifies.ts";

const ORIGIN = "https://mill.example:4100";

const ELSEWHERE: readonly unknown[] = [
  "https://evil.example",
  "http://mill.example:4100/",
  "//evil.example",
  "///evil.example",
  "////evil.example",
  "/\\evil.example",
  "\\\\evil.example",
  "/\\/evil.example",
  "/\t/evil.example",
  "/\n/evil.example",
  "/\r\n/evil.example",
  "\t//evil.example",
  " //evil.example",
  "//evil.example:4100",
  "//user@evil.example",
  "//mill.example:4100@evil.example",
  "//mill.example.evil.example",
  "//mill.example",
  "//[::1]",
  "//0x7f.1",
  "https:evil.example",
  "https:/evil.example",
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " javascript:alert(1)",
  "java\nscript:alert(1)",
  "data:text/html,<script>alert(1)</script>",
  "vbscript:x",
  "file:///etc/passwd",
  "blob:https://mill.example:4100/x",
  "about:blank",
  "evil.example",
  "./x",
  "../x",
  "?x",
  "#x",
  "",
  " ",
  "//",
  "/\\",
  "/\\\\",
  "///",
  null,
  undefined,
  1,
  true,
  ["//evil.example"],
  ["/"],
  { toString: () => "/" },
];

const HERE = [
  "/",
  "/projects/p-1",
  "/projects/p-1/runs?status=failure#top",
  "/device?user_code=ABCD-EFGH",
  "/projects/p-1/../p-2",
  "/%2f%2fevil.example",
  "/.//evil.example",
  "/x//evil.example",
  "/@evil.example",
];

verifies("hardening.redirect", "after the sign-in no link leads out of the dashboard", () => {
  expect(ELSEWHERE.filter((to) => wayBack(to, ORIGIN) !== null)).toEqual([]);
  for (const to of HERE) expect([to, wayBack(to, ORIGIN)]).toEqual([to, to]);
});
