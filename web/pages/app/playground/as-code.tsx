import type { Language } from "../../../api/playground-search.ts";
import { Card } from "../../../parts/card.tsx";
import { CodeBlock } from "../../../parts/copy.tsx";
import { Picker } from "../../../parts/picker.tsx";

const TITLES = { curl: "curl", typescript: "TypeScript", python: "Python" };

/** A call in one of some languages. */
export function AsCode<Name extends Language>({
  languages,
  picked,
  onPick,
  text,
}: {
  readonly languages: readonly Name[];
  readonly picked: Name;
  readonly onPick: (language: Name) => void;
  readonly text: string;
}) {
  return (
    <Card
      title="As code"
      actions={<Picker label="Language" names={languages} titles={TITLES} picked={picked} onPick={onPick} />}
    >
      <CodeBlock text={text} label="The call as code" />
    </Card>
  );
}
