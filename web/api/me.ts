import { queryOptions } from "@tanstack/react-query";
import { ask } from "./http.ts";

export type MyProject = { readonly id: string; readonly name: string; readonly role: "owner" | "member" };
export type Me = {
  readonly id: string;
  readonly email: string;
  /** Whether mail has shown that the address is theirs. */
  readonly isProven: boolean;
  /** Whether they run the installation. */
  readonly isOperator: boolean;
  readonly projects: readonly MyProject[];
};

/** The person who is signed in, and their projects. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => ask<Me>("/v2/me", { signal }),
  staleTime: 60_000,
});

/** Another address to sign in with: a label, until it is proven. */
export async function changeEmail(email: string, password: string): Promise<void> {
  await ask("/v2/me/email", { method: "POST", body: { email, password }, hasPassword: true });
}

/** Has a link sent to one's own address. */
export async function askForProof(): Promise<void> {
  await ask("/v2/me/email/proof", { method: "POST" });
}

/** Shows with such a link that the address is one's own. */
export async function proveEmail(link: string): Promise<{ readonly email: string }> {
  return await ask("/v2/me/email/prove", { method: "POST", body: { link } });
}
