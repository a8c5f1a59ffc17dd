import type { FormHTMLAttributes } from "react";
import { classes } from "./classes.ts";

type Props = Omit<FormHTMLAttributes<HTMLFormElement>, "onSubmit"> & { readonly onSubmit: () => void };

/** Fields one below the other. Submitting them calls the handler and loads no page. */
export function Form({ onSubmit, className, ...rest }: Props) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
      className={classes("flex flex-col gap-4", className)}
      {...rest}
    />
  );
}
