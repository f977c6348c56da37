const char *where_am_i(void);
const char *where_am_i(void)
{
  return "b";
}
