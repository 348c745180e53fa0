{ No SysUtils, no threads: misuse and lack of memory end the program with Pascal's codes. SPDX-License-Identifier: MIT }
program plain;

uses
  heddlemm;

var
  P: Pointer;
begin
  GetMem(P, 100);
  if ParamStr(1) = 'double' then begin
    FreeMem(P);
    FreeMem(P);
  end else if ParamStr(1) = 'resize' then ReallocMem(P, PtrUInt(1) shl 50)
  else if ParamStr(1) = 'leak' then begin
    FreeMem(P);
    GetMem(P, 40);
    Exit;
  end
  else if ParamStr(1) = 'size' then WriteLn(MemSize(P + 16));
  FreeMem(P);
end.
