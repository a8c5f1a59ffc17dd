import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { ask } from "../api/http.ts";
import { Empty } from "../parts/empty.tsx";
import { Field } from "../parts/field.tsx";
import { Entrance } from "./entrance.tsx";

/** Signs in a command line that shows a code. */
export function Device() {
  const { user_code: given = "" } = useSearch({ from: "/gate/device" });
  const [code, setCode] = useState(given);
  const [isDone, setDone] = useState(false);
  if (isDone) {
    return (
      <main>
        <Empty title="The device is signed in">You can go back to your terminal and close this page.</Empty>
      </main>
    );
  }
  return (
    <Entrance
      title="Sign in a device"
      intro="Only if the same code stands in your own terminal: whoever shows it acts in your name."
      action="Sign it in"
      onSubmit={async () => {
        await ask("/device/approve", { method: "POST", body: { user_code: code.trim() } });
        setDone(true);
      }}
    >
      <Field
        label="Code"
        required
        autoFocus
        autoComplete="off"
        value={code}
        onChange={({ target }) => setCode(target.value)}
        className="font-mono tracking-widest uppercase"
      />
    </Entrance>
  );
}
