// For wheels, which carry libarchive's tar code inside (ISOBIT_PORTABLE): the one function of its dispatcher over all
// formats that the tar writer calls. Defined here, the dispatcher is not linked, and with it none of XML, Unicode data,
// encryption and compression, 45 MB that no tar needs.
//
// What it is for: the message where an entry is neither a file nor a folder. Ours are (tar_file.cpp).
#include <archive.h>
#include <archive_entry.h>

extern "C" void __archive_write_entry_filetype_unsupported(struct archive* a, struct archive_entry* entry,
                                                           const char* format) {
  archive_set_error(a, -1, "%s: %s archives cannot hold this type of file", archive_entry_pathname(entry), format);
}
