/** Signs bytes with an owner's key (Ed25519), the one whose public half is the replica's `ownerKey`. */
export type Sign = (bytes: Uint8Array<ArrayBuffer>) => Promise<ArrayBuffer | Uint8Array>;
