/** Whether no surrogate stands alone: such a string would become another one in UTF-8. */
export function wellFormed(text: string): boolean {
  // With this flag, both halves of a pair are one character, of another category.
  return !/\p{Cs}/u.test(text);
}
