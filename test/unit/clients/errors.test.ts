import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import * as client from "../../../src/client/client.ts";
import { CLASSED_CODES, errorIn, errorOf, isTransient } from "../../../src/client/errors.ts";
import { AppError, ERRORS, errorBody } from "../../../src/model/errors.ts";
import { REPOSITORY } from "../../support/source-files.ts";

const PYTHON = readFileSync(path.join(REPOSITORY, "python/millrace_client/errors.py"), "utf8");

test("every code that has a class is one of the service's, and every class has a code", () => {
  expect(CLASSED_CODES.filter((code) => !(code in ERRORS))).toEqual([]);
  const used = new Set(CLASSED_CODES.map((code) => errorOf({ code, message: "" }).name));
  const classes = Object.values(client).filter(
    (value) => typeof value === "function" && value.prototype instanceof client.MillraceError,
  );
  const ownCodes = new Set(["ConnectionLost", "InvalidWebhook", "StillRunning"]);
  expect(classes.map(({ name }) => name).filter((name) => !used.has(name) && !ownCodes.has(name))).toEqual(
    [],
  );
});

test("the Python client has the same classes for the same codes", () => {
  const [, table = ""] = /^_CODES = \{\n([\s\S]*?)^\}/m.exec(PYTHON) ?? [];
  const rows = [...table.matchAll(/^ +(\w+): "([a-z_ ]+)",(?:  # noqa: E501)?$/gm)];
  const python = rows.flatMap(([, name = "", codes = ""]) => codes.split(" ").map((code) => [code, name]));
  const typescript = CLASSED_CODES.map((code) => [code, errorOf({ code, message: "" }).name]);
  expect(Object.fromEntries(python)).toEqual(Object.fromEntries(typescript));
});

test("docs/clients.md lists the same classes and codes", () => {
  const document = readFileSync(path.join(REPOSITORY, "docs/clients.md"), "utf8");
  const rows = [...document.matchAll(/^\| `([A-Z]\w+)` \| ((?:`[a-z_]+`(?:, )?)+) \|$/gm)];
  const listed = rows.flatMap(([, name = "", codes = ""]) =>
    codes.split(", ").map((code) => [code.replaceAll("`", ""), name]),
  );
  const classed = CLASSED_CODES.map((code) => [code, errorOf({ code, message: "" }).name]);
  expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(classed));
});

test("an error of the service is read with all it says", () => {
  const error = new AppError("queue_full", { details: [{ a: 1 }] });
  const response = new Response(null, { status: 503, headers: { "retry-after": "7" } });
  const read = errorIn(JSON.parse(errorBody(error, "the-id")), response);
  expect(read).toBeInstanceOf(client.Busy);
  expect(read).toMatchObject({
    code: "queue_full",
    message: error.message,
    status: 503,
    requestId: "the-id",
    details: [{ a: 1 }],
    retryAfterSeconds: 7,
  });
  for (const other of [null, 1, "text", [], {}, { code: "queue_full" }, { result: { code: 1 } }]) {
    expect(errorIn(other, response)).toBeNull();
  }
});

test("only what may pass is tried again", () => {
  const passing = CLASSED_CODES.filter((code) => isTransient(errorOf({ code, message: "" })));
  const busy = CLASSED_CODES.filter((code) => errorOf({ code, message: "" }) instanceof client.Busy);
  expect(passing).toEqual(busy);
  const lost = (code: string): boolean => isTransient(new client.ConnectionLost({ code, message: "" }));
  expect([lost("connection_lost"), lost("stream_lost"), isTransient(new Error("a bug"))]).toEqual([
    true,
    false,
    false,
  ]);
});
