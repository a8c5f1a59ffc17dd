import { queryOptions } from "@tanstack/react-query";
import { ME, MY_ADDRESS } from "../../src/shapes/people.ts";
import { ask, tell } from "./http.ts";

/** The person who is signed in, and their projects. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => ask(ME, "/v2/me", { signal }),
  staleTime: 60_000,
});

/** Another address to sign in with: a label, until it is proven. */
export async function changeEmail(email: string, password: string): Promise<void> {
  await tell("/v2/me/email", { method: "POST", body: { email, password }, hasPassword: true });
}

/** Has a link sent to one's own address. */
export async function askForProof(): Promise<void> {
  await tell("/v2/me/email/proof", { method: "POST" });
}

/** Shows with such a link that the address is one's own. */
export async function proveEmail(link: string): Promise<{ readonly email: string }> {
  return await ask(MY_ADDRESS, "/v2/me/email/prove", { method: "POST", body: { link } });
}
