import { expect, test } from "vitest";
import { isConnectionLost, translateError } from "../../../../src/store/postgres/errors.ts";

const withCode = (code: string) => Object.assign(new Error("as the server says it"), { code });

test("what speaks of the server or the way to it is storage_unavailable, with its cause", () => {
  const errors = [
    ...["08006", "25006", "25P03", "53100", "53300", "57014", "57P01", "57P03", "58030"].map(withCode),
    ...["ECONNREFUSED", "ECONNRESET", "ENOTFOUND", "ETIMEDOUT"].map(withCode),
    new Error("Connection terminated unexpectedly"),
    new Error("timeout exceeded when trying to connect"),
    new Error("Query read timeout"),
  ];
  for (const error of errors) {
    expect(translateError(error, "read")).toMatchObject({ code: "storage_unavailable", cause: error });
  }
});

test("what speaks of the statement stays as it is", () => {
  for (const error of [withCode("23505"), withCode("42601"), withCode("22021"), new TypeError("x")]) {
    expect(translateError(error, "read")).toBe(error);
  }
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

test("a write whose answer was lost is in doubt; one that was never sent is not", () => {
  const withCode = (code: string) => Object.assign(new Error(code), { code });
  for (const error of [
    new Error("Connection terminated unexpectedly"),
    new Error("Connection terminated"),
    new Error("Query read timeout"),
    withCode("ECONNRESET"),
    withCode("57P01"),
  ]) {
    expect(translateError(error, "write")).toMatchObject({ code: "in_doubt", cause: error });
    expect(translateError(error, "insert")).toMatchObject({ code: "in_doubt", cause: error });
    expect(translateError(error, "read")).toMatchObject({ code: "storage_unavailable", cause: error });
  }
  for (const error of [
    withCode("ECONNREFUSED"),
    withCode("53300"),
    withCode("57P03"),
    withCode("25006"),
    withCode("53100"),
    new Error("timeout exceeded when trying to connect"),
    new Error("Connection terminated due to connection timeout"),
  ]) {
    expect(translateError(error, "write")).toMatchObject({ code: "storage_unavailable", cause: error });
  }
});
