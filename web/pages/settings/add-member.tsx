import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { FormEvent } from "react";
import { membersQuery, setMember } from "../../api/members.ts";
import type { MemberRole } from "../../api/members.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Choice, Field } from "../../parts/field.tsx";
import { FormEnd } from "../../parts/form-end.tsx";
import { tell } from "../../parts/toasts.tsx";

type Props = {
  readonly projectId: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Somebody new gets a link. */
  readonly onInvited: (inviteUrl: string) => void;
};

/** The form of a new member: e-mail and role. */
export function AddMember(props: Props) {
  return (
    <Dialog title="Add a member" isOpen={props.isOpen} onClose={props.onClose}>
      <MemberForm {...props} />
    </Dialog>
  );
}

function MemberForm({ projectId, onClose, onInvited }: Props) {
  const queries = useQueryClient();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<MemberRole>("member");
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => setMember(projectId, email.trim(), role),
    onSuccess: async (member) => {
      await queries.invalidateQueries({ queryKey: membersQuery(projectId).queryKey });
      onClose();
      if (member.inviteUrl === null) tell(`${member.email} is in the project.`);
      else onInvited(member.inviteUrl);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    mutate();
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-4">
      <Field
        label="E-mail"
        hint="Somebody new gets a link from you, to choose a password with."
        type="email"
        required
        autoFocus
        autoComplete="off"
        value={email}
        onChange={({ target }) => setEmail(target.value)}
      />
      <Choice label="Role" value={role} onChange={({ target }) => setRole(target.value as MemberRole)}>
        <option value="member">member: deploys, reads logs, secrets and files</option>
        <option value="owner">owner: everything in the project</option>
      </Choice>
      <FormEnd error={error} action="Add member" isBusy={isPending} onCancel={onClose} />
    </form>
  );
}
