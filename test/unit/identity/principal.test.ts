import { expect, test } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import { type Principal, requirePerson, requireRole } from "../../../src/identity/principal.ts";
import { type Role, ROLES } from "../../../src/model/roles.ts";

const account = (role: Role): Principal => ({
  accountId: "sa-1",
  projectId: "p-one",
  role,
  limits: null,
  quotas: null,
  caller: { accountId: "sa-1", user: null },
  fairness: { key: "sa-1", weight: 1 },
  expiresAt: 1,
});
const person: Principal = {
  personId: "u-1",
  sessionId: "s",
  email: "ada@example.com",
  projectId: null,
  role: null,
  roles: new Map<string, Role>([
    ["p-one", "admin"],
    ["p-two", "deploy"],
  ]),
  quotas: null,
  caller: { accountId: "u-1", user: null },
  fairness: { key: "u-1", weight: 1 },
  expiresAt: 1,
};

/** The roles that the principal has in the project. */
function held(principal: Principal, projectId: string): Role[] {
  return ROLES.filter((role) => {
    try {
      requireRole(principal, projectId, role);
      return true;
    } catch (error) {
      if (error instanceof AppError && error.code === "forbidden") return false;
      throw error;
    }
  });
}

test("each role has all of the one before it, in its own project alone", () => {
  expect(ROLES.map((role) => held(account(role), "p-one"))).toEqual([
    ["call"],
    ["call", "run"],
    ["call", "run", "deploy"],
    ["call", "run", "deploy", "admin"],
  ]);
  expect(held(account("admin"), "p-two")).toEqual([]);
});

test("a person has in each project what their membership gives", () => {
  expect(held(person, "p-one")).toEqual([...ROLES]);
  expect(held(person, "p-two")).toEqual(["call", "run", "deploy"]);
  for (const projectId of ["p-three", "", "null"]) expect(held(person, projectId)).toEqual([]);
});

test("only a person is a person", () => {
  expect(requirePerson(person)).toBe(person);
  for (const other of [account("admin"), null]) {
    expect(() => requirePerson(other)).toThrow(expect.objectContaining({ code: "forbidden" }) as Error);
  }
});
