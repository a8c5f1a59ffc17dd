import { useState } from "react";
import { Dialog } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { FormEnd } from "../../parts/form-end.tsx";

type Props = {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onName: (name: string) => void;
};

/** Asks for the name of a folder to go to; it exists with its first file. */
export function NewFolder(props: Props) {
  return (
    <Dialog title="New folder" isOpen={props.isOpen} onClose={props.onClose}>
      <NameForm {...props} />
    </Dialog>
  );
}

function NameForm({ onClose, onName }: Props) {
  const [name, setName] = useState("");
  const isOdd = /[/\\]|^\.{1,2}$/.test(name.trim());
  const submit = (): void => {
    if (name.trim() !== "" && !isOdd) onName(name.trim());
  };
  return (
    <Form onSubmit={submit}>
      <Field
        label="Name"
        hint="A folder exists once it contains a file, so upload one next."
        error={isOdd ? "A name cannot contain slashes." : undefined}
        required
        autoFocus
        maxLength={200}
        value={name}
        onChange={({ target }) => setName(target.value)}
      />
      <FormEnd action="Go to the folder" onCancel={onClose} />
    </Form>
  );
}
