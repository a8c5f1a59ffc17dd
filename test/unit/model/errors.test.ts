import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AppError, errorBody, type ErrorCode, ERRORS } from "../../../src/model/errors.ts";

const anyCodeUnit = fc.nat({ max: 0xffff }).map((unit) => String.fromCharCode(unit));
const CODES = Object.keys(ERRORS) as ErrorCode[];

describe("the body of an error", () => {
  test("has exactly the contract's members for every code", () => {
    for (const code of CODES) {
      const { message, type } = ERRORS[code];
      expect(errorBody(new AppError(code), "request-1")).toBe(
        JSON.stringify({ message, code, request_id: "request-1", error: { message, code, type } }),
      );
    }
  });

  test("has details only where there are several faults", () => {
    const details = [
      { field: "a", problem: "missing" },
      { field: "b", problem: "unknown" },
    ];
    const body = JSON.parse(errorBody(new AppError("invalid_arguments", { details }), "r")) as object;
    expect(Object.keys(body)).toEqual(["message", "code", "request_id", "error", "details"]);
    expect(body).toMatchObject({ details });
  });

  test("tells the given message in both places and nothing of the cause or the stack", () => {
    const cause = new Error("postgres://user:secret@host");
    const error = new AppError("app_error", { message: "ValueError: no" }, cause);
    const body = errorBody(error, "r");
    expect(JSON.parse(body)).toMatchObject({
      message: "ValueError: no",
      error: { message: "ValueError: no" },
    });
    expect(body).not.toContain("secret");
    expect(body).not.toContain("at ");
    expect(error.cause).toBe(cause);
  });

  test("is one line of valid JSON whatever the message holds", () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCodeUnit }), (message) => {
        const body = errorBody(new AppError("app_error", { message }), "r");
        expect(body).not.toMatch(/[\n\r]/);
        expect((JSON.parse(body) as { message: string }).message).toBe(message);
      }),
    );
  });
});

describe("the catalogue", () => {
  test("every code is snake_case with an error status and a full sentence", () => {
    for (const code of CODES) {
      expect(code).toMatch(/^[a-z]+(?:_[a-z]+)*$/);
      expect(ERRORS[code].status).toBeGreaterThanOrEqual(400);
      expect(ERRORS[code].status).toBeLessThan(600);
      expect(ERRORS[code].message).toMatch(/^[A-Z].*\.$/);
    }
  });

  test("an error knows its status and says its code's sentence unless told otherwise", () => {
    const error = new AppError("app_not_found");
    expect([error.status, error.message, error.name]).toEqual([
      404,
      ERRORS.app_not_found.message,
      "AppError",
    ]);
    expect(new AppError("app_not_found", { message: "No app x." }).message).toBe("No app x.");
  });
});
