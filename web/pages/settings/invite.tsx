import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { installation } from "../../api/installation.ts";
import { invitationsQuery, invite } from "../../api/invitations.ts";
import type { MadeInvitation, Wish } from "../../api/invitations.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Choice, Field } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { FormEnd } from "../../parts/form-end.tsx";

type Props = {
  readonly projectId: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onInvited: (made: MadeInvitation) => void;
};

/** The form of an invitation: for whom, as what, and how it gets there. */
export function Invite(props: Props) {
  return (
    <Dialog title="Invite somebody" isOpen={props.isOpen} onClose={props.onClose}>
      <InviteForm {...props} />
    </Dialog>
  );
}

function InviteForm({ projectId, onClose, onInvited }: Props) {
  const queries = useQueryClient();
  const [wish, setWish] = useState<Wish>({
    email: "",
    role: "member",
    send: installation.sendsMail ? "mail" : "link",
  });
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => invite(projectId, { ...wish, email: wish.email.trim() }),
    onSuccess: async (made) => {
      await queries.invalidateQueries({ queryKey: invitationsQuery(projectId).queryKey });
      setWish({ ...wish, email: "" });
      onClose();
      onInvited(made);
    },
  });
  return (
    <Form onSubmit={mutate}>
      <Field
        label="E-mail"
        hint="Who the invitation is for. Anyone who opens its link can join, with any account."
        type="email"
        required
        autoFocus
        autoComplete="off"
        value={wish.email}
        onChange={({ target }) => setWish({ ...wish, email: target.value })}
      />
      <Choice
        label="Role"
        value={wish.role}
        onChange={({ target }) => setWish({ ...wish, role: target.value as Wish["role"] })}
      >
        <option value="member">member: deploy, read logs and secrets</option>
        <option value="owner">owner: everything in the project</option>
      </Choice>
      {installation.sendsMail && (
        <Choice
          label="How to send it"
          value={wish.send}
          onChange={({ target }) => setWish({ ...wish, send: target.value as Wish["send"] })}
        >
          <option value="mail">mail the link to this address</option>
          <option value="link">show me the link to pass on</option>
        </Choice>
      )}
      <FormEnd error={error} action="Invite" isBusy={isPending} onCancel={onClose} />
    </Form>
  );
}
