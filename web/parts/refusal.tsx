import { messageOf } from "../api/answer.ts";

/** Says in a form why it was refused; nothing while there is no error. */
export function Refusal({ error }: { readonly error: unknown }) {
  if (!error) return null;
  return (
    <p role="alert" className="break-words whitespace-pre-wrap text-bad">
      {messageOf(error)}
    </p>
  );
}
