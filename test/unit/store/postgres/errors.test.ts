import { DatabaseError } from "pg";
import { expect, test } from "vitest";
import {
  beforeConnecting,
  isConflict,
  isConnectionLost,
  ofQuery,
  translateError,
} from "../../../../src/store/postgres/errors.ts";
import { verifies } from "../../../verifies.ts";

const withCode = (code: string) => Object.assign(new Error("as the system says it"), { code });

/** As the server, or a pooler, says it. */
const said = (code: string, severity = "ERROR") =>
  Object.assign(new DatabaseError("in its words", 0, "error"), { code, severity });

test("what speaks of the server or the way to it is storage_unavailable, with its cause", () => {
  const errors = [
    ...["08006", "25006", "25P03", "53100", "53300", "57014", "57P01", "57P03", "58030"].map((code) =>
      said(code),
    ),
    ...["ECONNREFUSED", "ECONNRESET", "ENOTFOUND", "ETIMEDOUT"].map(withCode),
    ofQuery(new Error("Connection terminated unexpectedly")),
    beforeConnecting(new Error("timeout exceeded when trying to connect")),
    ofQuery(new Error("Query read timeout")),
  ];
  for (const error of errors) {
    expect(translateError(error, "read")).toMatchObject({ code: "storage_unavailable", cause: error });
  }
});

test("what speaks of the statement stays as it is", () => {
  const errors = [
    said("23505"),
    said("42601"),
    said("22021"),
    said("23505", "FEHLER"),
    ofQuery(new TypeError("x")),
  ];
  for (const error of errors) {
    expect(translateError(error, "read")).toBe(error);
    expect(translateError(error, "write")).toBe(error);
  }
});

test("a transaction that another one ended may be tried again, and nothing else may", () => {
  expect(["40001", "40P01"].map((code) => isConflict(said(code)))).toEqual([true, true]);
  const others = [said("40003"), said("57014"), said("40P01", "FATAL"), withCode("40P01")];
  expect(others.map(isConflict)).toEqual([false, false, false, false]);
});

test("only a lost connection is thrown away: a cancelled statement or a full disk leaves it sound", () => {
  for (const code of ["08006", "57P01", "25P03", "ECONNRESET"]) {
    expect([code, isConnectionLost(withCode(code))]).toEqual([code, true]);
  }
  expect(["57014", "53100", "23505"].map((code) => isConnectionLost(withCode(code)))).toEqual([
    false,
    false,
    false,
  ]);
});

verifies("async.in-doubt", "a write that was sent is in doubt unless the server says that it failed", () => {
  for (const error of [
    ofQuery(new Error("Connection terminated unexpectedly")),
    ofQuery(new Error("Query read timeout")),
    ofQuery(new Error("words that nobody knows yet")),
    ...["ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "ECONNABORTED", "EPROTO", "EPIPE"].map(withCode),
    withCode("ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC"),
    ...["57P01", "53100", "58030", "XX000"].map((code) => said(code, "FATAL")),
    said("53100", "PANIC"),
    ...["08P01", "08007", "08000", "08003", "40003", "58000", "57P04"].map((code) => said(code)),
    // A word that was translated proves nothing.
    said("53100", "FEHLER"),
    ofQuery(new DatabaseError("received invalid response: 7b", 0, "error")),
  ]) {
    expect(translateError(error, "write")).toMatchObject({ code: "in_doubt", cause: error });
    expect(translateError(error, "insert")).toMatchObject({ code: "in_doubt", cause: error });
    expect(translateError(error, "read")).toMatchObject({ code: "storage_unavailable", cause: error });
  }
  for (const error of [
    ...["53100", "57014", "25006", "58030", "40001", "40P01"].map((code) => said(code)),
    beforeConnecting(said("53300", "FATAL")),
    beforeConnecting(said("57P03", "FATAL")),
    beforeConnecting(withCode("ECONNREFUSED")),
    beforeConnecting(withCode("ECONNRESET")),
    beforeConnecting(new Error("timeout exceeded when trying to connect")),
  ]) {
    expect(translateError(error, "write")).toMatchObject({ code: "storage_unavailable", cause: error });
  }
});
