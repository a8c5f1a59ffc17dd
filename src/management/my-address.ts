import { z } from "zod";
import type { Addresses } from "../identity/addresses.ts";
import type { Audit } from "../identity/audit.ts";
import { requirePerson } from "../identity/principal.ts";
import { DONE } from "../shapes/common.ts";
import { MY_ADDRESS } from "../shapes/people.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation, Call } from "./api/operation.ts";
import { EMAIL, LINK, PASSWORD } from "./signed-in.ts";

export type MyAddressParts = {
  readonly addresses: Addresses;
  readonly audit: Pick<Audit, "record">;
};

const TAG = "Sign-in";
const PATH = "/v2/me/email";

/** The address of the person who asks: change it, and show by mail that it is theirs. */
export function myAddressOperations({ addresses, audit }: MyAddressParts): AnyOperation[] {
  const record = async (
    { principal, ip, requestId }: Pick<Call<unknown, unknown, unknown>, "principal" | "ip" | "requestId">,
    action: string,
    { before, after }: { readonly before: unknown; readonly after: unknown },
  ): Promise<void> => {
    const target = requirePerson(principal).personId;
    await audit.record({ projectId: null, action, target, before, after, principal, ip, requestId });
  };

  return [
    operation({
      method: "POST",
      path: PATH,
      id: "changeEmail",
      tag: TAG,
      summary: "Change the e-mail address you sign in with; it is unverified until you verify it",
      access: "person",
      body: z.object({ email: EMAIL, password: PASSWORD }),
      response: MY_ADDRESS,
      errors: ["too_many_requests"],
      handle: async (call) => {
        const person = requirePerson(call.principal);
        const { email, password } = call.body;
        await addresses.change(person, { email, password, ip: call.ip });
        const after = { email: email.toLowerCase() };
        await record(call, "person.update", { before: { email: person.email }, after });
        return after;
      },
    }),

    operation({
      method: "POST",
      path: `${PATH}/proof`,
      id: "askForProof",
      tag: TAG,
      summary: "Mail yourself a link that verifies your address",
      access: "person",
      response: DONE,
      errors: ["not_found", "too_many_requests"],
      handle: async ({ principal, ip }) => {
        await addresses.askForProof(requirePerson(principal), ip);
        return {};
      },
    }),

    operation({
      method: "POST",
      path: `${PATH}/prove`,
      id: "proveEmail",
      tag: TAG,
      summary: "Verify your address with the mailed link; from then on it is verified for you alone",
      access: "person",
      body: z.object({ link: LINK }),
      response: MY_ADDRESS,
      handle: async (call) => {
        const email = await addresses.prove(requirePerson(call.principal), call.body.link);
        await record(call, "person.prove-email", { before: null, after: { email } });
        return { email };
      },
    }),
  ];
}
