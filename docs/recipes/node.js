/** The node that the pages count with; `?node=ADDRESS` names another one. */
export const NODE = new URLSearchParams(location.search).get('node') ?? 'http://127.0.0.1:4280';
